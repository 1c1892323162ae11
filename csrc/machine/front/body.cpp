#include <bit>

#include "machine/front/parser.hpp"
#include "machine/front/special.hpp"

namespace sglab::emu {

void Parser::body() {
  scan_.expect('{');
  const std::size_t outer = open_.size();
  for (;;) {
    poll_.step();
    const char next = scan_.peek();
    if (next == '{') {
      scan_.expect('{');
      if (open_.size() > 256) scan_.fail("blocks nested too deeply");
      open_scope();
    } else if (next == '}') {
      scan_.expect('}');
      if (open_.size() == outer) return;
      open_.pop_back();
    } else if (next == '\0') {
      scan_.fail("function " + std::string(current().name) + " is never closed");
    } else if (next == '.') {
      body_directive();
    } else {
      statement();
    }
  }
}

void Parser::body_directive() {
  const std::string_view name = scan_.dotted();
  if (name == "reg") return registers();
  if (name == "loc") return location();
  if (name == "local") return variable(Space::kLocal, {});
  if (name == "param") return variable(Space::kParam, {});
  if (name == "shared") return variable(Space::kShared, {});
  if (name == "global") return variable(Space::kGlobal, {});
  if (name == "const") return variable(Space::kConst, {});
  if (name == "extern") {
    if (scan_.dotted() != "shared") scan_.fail("only .extern .shared is supported inside a function");
    return variable(Space::kShared, {true, false});
  }
  if (name == "pragma") return pragma();
  scan_.fail("unknown directive ." + std::string(name));
}

void Parser::statement() {
  if (scan_.accept(';')) return;
  const std::uint32_t line = scan_.line();
  if (scan_.accept('@')) {
    const bool negated = scan_.accept('!');
    const std::string_view name = scan_.word();
    const std::uint32_t guard = find_register(name);
    if (guard == kNoIndex || current().registers[guard] != Type::kPred) {
      scan_.fail(std::string(name) + " is not a predicate register");
    }
    return instruction(scan_.opcode(), guard, negated, line);
  }
  const std::string_view name = scan_.opcode();
  if (!scan_.accept(':')) return instruction(name, kNoIndex, false, line);
  const auto label = static_cast<std::uint32_t>(current().labels.size());
  if (!scope().labels.try_emplace(name, label).second)
    scan_.fail("label " + std::string(name) + " is defined twice");
  current().labels.push_back({name, static_cast<std::uint32_t>(current().body.size())});
  if (scan_.peek() == '.') label_directive(label);
}

// `label: .branchtargets a, b;`, `label: .calltargets f;`, `label: .callprototype (…) _ (…);`; any other
// directive just follows the label.
void Parser::label_directive(std::uint32_t label) {
  const Scanner saved = scan_;
  const std::string_view name = scan_.dotted();
  if (name == "branchtargets") {
    std::vector<Operand> targets;
    do {
      targets.push_back(named(scan_.word()));
      if (targets.back().kind != OperandKind::kName) scan_.fail("expected a label");
    } while (scan_.accept(','));
    scan_.expect(';');
    const Operand list = adopt(OperandKind::kList, targets);
    current().tables[label] = {list.index, list.count};
  } else if (name == "calltargets") {
    do {
      scan_.word();
    } while (scan_.accept(','));
    scan_.expect(';');
  } else if (name == "callprototype") {
    prototype(label);
  } else {
    scan_ = saved;
  }
}

void Parser::prototype(std::uint32_t label) {
  Function shape;
  shape.line = scan_.line();
  const std::uint32_t caller = function_;
  module_.functions.push_back(std::move(shape));
  function_ = static_cast<std::uint32_t>(module_.functions.size() - 1);
  open_scope();
  if (scan_.peek() == '(') parameters(current().returns);
  if (scan_.word() != "_") scan_.fail("expected '_' in .callprototype");
  if (scan_.peek() == '(') parameters(current().parameters);
  function_directives(current());
  scan_.expect(';');
  open_.pop_back();
  const std::uint32_t made = function_;
  function_ = caller;
  current().prototypes[label] = made;
}

void Parser::instruction(std::string_view opcode, std::uint32_t guard, bool negated, std::uint32_t line) {
  std::vector<Operand> operands;
  if (scan_.peek() != ';') {
    do {
      operands.push_back(operand());
    } while (scan_.accept(','));
  }
  scan_.expect(';');
  const Operand all = adopt(OperandKind::kList, operands);
  current().body.push_back({opcode_id(opcode), all.index, all.count, negated, guard, line, location_});
}

// Appends compound children so that they are side by side. Children are complete, so their own index stays
// valid.
Operand Parser::adopt(OperandKind kind, const std::vector<Operand>& children) {
  if (children.size() > 0xffff) scan_.fail("too many operands");
  std::vector<Operand>& all = current().operands;
  Operand parent;
  parent.kind = kind;
  parent.index = static_cast<std::uint32_t>(all.size());
  parent.count = static_cast<std::uint16_t>(children.size());
  for (const Operand& child : children) {
    if (child.kind == OperandKind::kName) {
      pending_.push_back({static_cast<std::uint32_t>(all.size()), open_.back(), scan_.line()});
    }
    all.push_back(child);
  }
  return parent;
}

Operand Parser::operand() {
  Operand first = simple_operand();
  if (!scan_.accept('|')) return first;
  const Operand second = simple_operand();
  return adopt(OperandKind::kPair, {first, second});
}

Operand Parser::simple_operand() {
  switch (scan_.peek()) {
    case '[':
      return address();
    case '{':
      scan_.expect('{');
      return compound('}', OperandKind::kVector);
    case '(':
      scan_.expect('(');
      return compound(')', OperandKind::kList);
    case '!': {
      scan_.expect('!');
      Operand result = named(scan_.word());
      if (result.kind != OperandKind::kRegister) scan_.fail("only a predicate register can be negated");
      result.negated = true;
      return result;
    }
    default:
      break;
  }
  if (scan_.at_word()) {
    Operand result = named(scan_.word());
    if (result.kind == OperandKind::kSymbol && (scan_.peek() == '+' || scan_.peek() == '-'))
      result.value = constant();
    return result;
  }
  Operand result;
  const bool minus = scan_.accept('-');
  if (!scan_.at_number()) {
    result.kind = OperandKind::kInteger;
    result.value = minus ? negative(constant_unary()) : constant_unary();
    return result;
  }
  const Number number = scan_.number();
  result.value = static_cast<std::int64_t>(number.bits);
  switch (number.kind) {
    case Number::Kind::kInteger:
      result.kind = OperandKind::kInteger;
      if (minus) result.value = static_cast<std::int64_t>(~number.bits + 1);
      break;
    case Number::Kind::kFloat32:
      result.kind = OperandKind::kFloat32;
      if (minus) result.value ^= 0x80000000;
      break;
    case Number::Kind::kFloat64:
      result.kind = OperandKind::kFloat64;
      if (minus) result.value = static_cast<std::int64_t>(number.bits ^ std::uint64_t{1} << 63);
      break;
  }
  return result;
}

// [base+4], [base], [12], [map, {x, y}], [map, {x, y}, {dx}]
Operand Parser::address() {
  scan_.expect('[');
  std::vector<Operand> parts;
  std::int64_t offset = 0;
  if (scan_.at_word()) {
    parts.push_back(named(scan_.word()));
    if (parts[0].kind == OperandKind::kName)
      scan_.fail("undefined name " + std::string(current().names[parts[0].index]));
    if (scan_.accept('+')) {
      offset = constant();
    } else if (scan_.peek() == '-') {
      offset = constant();
    }
  } else {
    Operand absolute;
    absolute.kind = OperandKind::kInteger;
    absolute.value = constant();
    parts.push_back(absolute);
  }
  while (scan_.accept(',')) parts.push_back(simple_operand());
  scan_.expect(']');
  Operand result = adopt(OperandKind::kAddress, parts);
  result.value = offset;
  return result;
}

Operand Parser::compound(char close, OperandKind kind) {
  if (++depth_ > 8) scan_.fail("operands nested too deeply");
  std::vector<Operand> parts;
  if (!scan_.accept(close)) {
    do {
      parts.push_back(operand());
    } while (scan_.accept(','));
    scan_.expect(close);
  }
  --depth_;
  return adopt(kind, parts);
}

Operand Parser::named(std::string_view name) {
  Operand result;
  if (name == "_") return result;
  if (const std::string_view part = scan_.component(); !part.empty()) {
    const std::string_view whole(name.data(), name.size() + part.size());
    const Special special = special_from_name(whole);
    if (special == Special::kCount) scan_.fail("unknown special register " + std::string(whole));
    result.kind = OperandKind::kSpecial;
    result.index = static_cast<std::uint32_t>(special);
    return result;
  }
  result.kind = OperandKind::kRegister;
  result.index = find_register(name);
  if (result.index != kNoIndex) return result;
  result.kind = OperandKind::kSymbol;
  result.index = find_symbol(name);
  if (result.index != kNoIndex) return result;
  if (const Special special = special_from_name(name); special != Special::kCount) {
    result.kind = OperandKind::kSpecial;
    result.index = static_cast<std::uint32_t>(special);
    return result;
  }
  result.kind = OperandKind::kFunction;
  result.index = find_function(name);
  if (result.index != kNoIndex) return result;
  if (name[0] == '%') scan_.fail("undefined register " + std::string(name));
  result.kind = OperandKind::kName;
  result.index = static_cast<std::uint32_t>(current().names.size());
  current().names.push_back(name);
  return result;
}

std::uint32_t Parser::find_register(std::string_view name) const {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  std::uint64_t number = 0;
  for (std::size_t i = digits; i < name.size() && i < digits + 8; ++i) number = number * 10 + (name[i] - '0');
  const bool canonical =
      digits < name.size() && name.size() - digits < 8 && (name[digits] != '0' || name.size() - digits == 1);
  for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
    const Scope& scope = scopes_[*open];
    if (!scope.registers.empty()) {
      const auto exact = scope.registers.find(name);
      if (exact != scope.registers.end()) return exact->second;
    }
    if (!canonical || scope.families.empty()) continue;
    const auto family = scope.families.find(name.substr(0, digits));
    if (family != scope.families.end() && number < family->second.count) {
      return family->second.first + static_cast<std::uint32_t>(number);
    }
  }
  return kNoIndex;
}

std::uint32_t Parser::find_symbol(std::string_view name) const {
  for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
    if (scopes_[*open].symbols.empty()) continue;
    const auto found = scopes_[*open].symbols.find(name);
    if (found != scopes_[*open].symbols.end()) return found->second;
  }
  return kNoIndex;
}

std::uint32_t Parser::find_function(std::string_view name) const {
  const auto found = function_ids_.find(name);
  return found == function_ids_.end() ? kNoIndex : found->second;
}

std::uint32_t Parser::opcode_id(std::string_view opcode) {
  const auto [entry, fresh] =
      opcode_ids_.try_emplace(opcode, static_cast<std::uint32_t>(module_.opcodes.size()));
  if (fresh) module_.opcodes.push_back(opcode);
  return entry->second;
}

}  // namespace sglab::emu
