#include <algorithm>
#include <bit>
#include <utility>

#include "machine/front/parser.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint64_t kLargestVariable = std::uint64_t{1} << 32;
constexpr std::size_t kMostRegisters = 1u << 20;  // of a function, and of a module that hardly mentions them

int precedence_of(char c) {
  switch (c) {
    case '|':
      return 1;
    case '^':
      return 2;
    case '&':
      return 3;
    case '<':
    case '>':
      return 4;
    case '+':
    case '-':
      return 5;
    case '*':
    case '/':
    case '%':
      return 6;
    default:
      return 0;
  }
}

}  // namespace

// .reg .b32 %r<12>, %tmp;
void Parser::registers() {
  Type type = Type::kNone;
  while (scan_.peek() == '.') {
    const std::string_view name = scan_.dotted();
    type = type_from_name(name);
    if (type == Type::kNone) scan_.fail("registers of type ." + std::string(name) + " are not supported");
  }
  if (type == Type::kNone) scan_.fail("expected a register type");
  Function& owner = current();
  do {
    const std::string_view name = scan_.word();
    std::uint32_t count = 1;
    const auto first = static_cast<std::uint32_t>(owner.registers.size());
    if (scan_.accept('<')) {
      const std::uint64_t wanted = scan_.integer(kMostRegisters, "a number of registers");
      count = static_cast<std::uint32_t>(wanted);
      scan_.expect('>');
      scope().families[name] = {first, count};
      owner.register_groups.push_back({name, first, count, true});
    } else {
      owner.register_groups.push_back({name, first, count, false});
      scope().registers[name] = first;
    }
    registers_ += count;
    if (owner.registers.size() + count > kMostRegisters)
      scan_.fail("more than a million registers in a function");
    if (registers_ > kMostRegisters + scan_.size()) scan_.fail("more registers than the text can name");
    owner.registers.insert(owner.registers.end(), count, type);
  } while (scan_.accept(','));
  scan_.expect(';');
}

// .shared .align 16 .b8 name[1024] = {…}, other;
void Parser::variable(Space space, Linkage linkage) {
  Symbol shape;
  shape.space = space;
  shape.external = linkage.external;
  shape.function = function_;
  std::uint32_t align = 0;
  unsigned vector = 1;
  bool typed = false;
  while (scan_.peek() == '.') {
    const std::string_view word = scan_.dotted();
    if (word == "align") {
      align = alignment(kLargestAlignment);
    } else if (word == "v2" || word == "v4") {
      vector = word == "v2" ? 2 : 4;
    } else if (word == "attribute") {
      scan_.expect('(');
      while (!scan_.accept(')')) {
        if (scan_.peek() == '.')
          scan_.dotted();
        else if (scan_.at_number())
          scan_.number();
        else if (!scan_.accept(','))
          scan_.fail("malformed .attribute");
      }
    } else {
      shape.type = type_from_name(word);
      typed = shape.type != Type::kNone && shape.type != Type::kPred;
      if (!typed) scan_.fail("variables of type ." + std::string(word) + " are not supported");
    }
  }
  if (!typed) scan_.fail("expected a variable type");
  do {
    Symbol symbol = shape;
    symbol.line = scan_.line();
    symbol.name = scan_.word();
    symbol.align = std::max(align, type_bytes(shape.type) * vector);
    bool unsized = false;
    symbol.bytes = array_bytes(std::uint64_t{type_bytes(shape.type)} * vector, unsized);
    if (scan_.accept('=')) {
      if (space != Space::kGlobal && space != Space::kConst)
        scan_.fail("only variables in global and constant memory have initial values");
      initialiser(symbol, unsized ? kLargestVariable : symbol.bytes);
      if (unsized) symbol.bytes = symbol.initial.size();
    } else if (unsized && !linkage.external) {
      scan_.fail("array " + std::string(symbol.name) + " needs a size or an initialiser");
    }
    symbol.align = std::max(symbol.align, align);
    declare(std::move(symbol));
  } while (scan_.accept(','));
  scan_.expect(';');
}

void Parser::declare(Symbol symbol) {
  const auto index = static_cast<std::uint32_t>(module_.symbols.size());
  if (symbol.name == "_") {  // prototypes leave names out
    module_.symbols.push_back(std::move(symbol));
    return;
  }
  const auto [entry, fresh] = scope().symbols.try_emplace(symbol.name, index);
  if (!fresh) {
    if (!module_.symbols[entry->second].external && !symbol.external) {
      scan_.fail(std::string(symbol.name) + " is declared twice");
    }
    if (!symbol.external) entry->second = index;
  }
  module_.symbols.push_back(std::move(symbol));
}

std::uint32_t Parser::alignment(std::uint32_t most) {
  const std::uint64_t wanted = scan_.integer(~std::uint64_t{0}, ".align");
  if (!std::has_single_bit(wanted) || wanted > most) {
    scan_.fail(".align must be a power of two up to " + std::to_string(most) + "; got " +
               std::to_string(wanted));
  }
  return static_cast<std::uint32_t>(wanted);
}

std::uint64_t Parser::array_bytes(std::uint64_t element, bool& unsized) {
  std::uint64_t bytes = element;
  while (scan_.accept('[')) {
    if (scan_.accept(']')) {
      unsized = true;
      bytes = 0;
      continue;
    }
    const std::int64_t count = constant();
    scan_.expect(']');
    if (count < 0 || (count != 0 && bytes > kLargestVariable / static_cast<std::uint64_t>(count))) {
      scan_.fail("this array is larger than 4 GB");
    }
    bytes *= static_cast<std::uint64_t>(count);
  }
  return bytes;
}

// `limit`: bytes that there is room for. Symbol::initial ends with the last value; what follows it is zero.
void Parser::initialiser(Symbol& symbol, std::uint64_t limit) {
  std::uint64_t at = 0;
  const unsigned element = type_bytes(symbol.type);
  if (scan_.peek() == '{') {
    initial_list(symbol, element, at, limit);
  } else {
    initial_value(symbol, element, at, limit);
  }
}

void Parser::initial_list(Symbol& symbol, unsigned element, std::uint64_t& at, std::uint64_t limit) {
  if (++depth_ > 16) scan_.fail("initialiser nested too deeply");
  scan_.expect('{');
  while (!scan_.accept('}')) {
    if (scan_.peek() == '{') {
      initial_list(symbol, element, at, limit);
    } else {
      initial_value(symbol, element, at, limit);
    }
    if (scan_.peek() != '}') scan_.expect(',');
  }
  --depth_;
}

// A number, `name`, `name+4`, `generic(name)+8`, or a byte of one: `0xFF00(name)`.
void Parser::initial_value(Symbol& symbol, unsigned element, std::uint64_t& at, std::uint64_t limit) {
  poll_.step();
  if (element > limit || at > limit - element) scan_.fail("more initial values than elements");
  symbol.initial.resize(at + element);
  std::uint64_t bits = 0;
  if (scan_.at_word()) {
    std::string_view name = scan_.word();
    Relocation relocation{static_cast<std::uint32_t>(at),    kNoIndex, kNoIndex, 0, false,
                          static_cast<std::uint8_t>(element)};
    if (name == "generic") {
      relocation.generic = true;
      scan_.expect('(');
      name = scan_.word();
      scan_.expect(')');
    }
    relocation.symbol = find_symbol(name);
    if (relocation.symbol == kNoIndex) relocation.function = find_function(name);
    if (relocation.symbol == kNoIndex && relocation.function == kNoIndex) {
      scan_.fail("undefined name " + std::string(name));
    }
    if (scan_.peek() == '+' || scan_.peek() == '-') {
      const bool minus = scan_.accept('-');
      if (!minus) scan_.expect('+');
      relocation.value = minus ? negative(constant_unary()) : constant_unary();
    }
    if (element != 8 && element != 4) scan_.fail("an address needs a 4- or 8-byte element");
    symbol.relocations.push_back(relocation);
  } else {
    const bool minus = scan_.accept('-');
    if (scan_.at_number()) {
      const Number number = scan_.number();
      bits = number.bits;
      if (number.kind == Number::Kind::kFloat64 && symbol.type == Type::kF32) {
        bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
      }
      if (minus && is_float(symbol.type)) {
        bits ^= std::uint64_t{1} << (element * 8 - 1);
      } else if (minus) {
        bits = ~bits + 1;
      }
    } else {
      bits = static_cast<std::uint64_t>(constant_unary());
      if (minus) bits = ~bits + 1;
    }
  }
  for (unsigned i = 0; i < element; ++i)
    symbol.initial[at + i] = static_cast<std::uint8_t>(i < 8 ? bits >> 8 * i : 0);
  at += element;
}

std::int64_t Parser::constant() {
  return constant_binary(1);
}

std::int64_t Parser::constant_binary(int precedence) {
  std::int64_t left = constant_unary();
  for (;;) {
    const char op = scan_.peek();
    const int own = precedence_of(op);
    if (own == 0 || own < precedence) return left;
    scan_.expect(op);
    if (op == '<' || op == '>') scan_.expect(op);
    const std::int64_t right = constant_binary(own + 1);
    const auto a = static_cast<std::uint64_t>(left), b = static_cast<std::uint64_t>(right);
    if ((op == '/' || op == '%') && (right == 0 || right == -1)) scan_.fail("constant division by 0 or -1");
    switch (op) {
      case '+':
        left = static_cast<std::int64_t>(a + b);
        break;
      case '-':
        left = static_cast<std::int64_t>(a - b);
        break;
      case '*':
        left = static_cast<std::int64_t>(a * b);
        break;
      case '/':
        left /= right;
        break;
      case '%':
        left %= right;
        break;
      case '<':
        left = static_cast<std::int64_t>(b > 63 ? 0 : a << b);
        break;
      case '>':
        left = b > 63 ? 0 : left >> b;
        break;
      case '&':
        left &= right;
        break;
      case '|':
        left |= right;
        break;
      default:
        left ^= right;
        break;
    }
  }
}

std::int64_t Parser::constant_unary() {
  if (++depth_ > 64) scan_.fail("expression nested too deeply");
  std::int64_t value = 0;
  if (scan_.accept('-')) {
    value = negative(constant_unary());
  } else if (scan_.accept('~')) {
    value = ~constant_unary();
  } else if (scan_.accept('!')) {
    value = constant_unary() == 0;
  } else if (scan_.accept('+')) {
    value = constant_unary();
  } else if (scan_.accept('(')) {
    value = constant();
    scan_.expect(')');
  } else {
    if (scan_.at_word()) {
      if (scan_.word() != "WARP_SZ") scan_.fail("expected a constant");
      value = 32;
    } else {
      value = static_cast<std::int64_t>(scan_.integer(~std::uint64_t{0}, "a constant"));
    }
  }
  --depth_;
  return value;
}

}  // namespace sglab::emu
