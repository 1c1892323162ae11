#include "machine/front/parser.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "machine/float/environment.hpp"

namespace sglab::emu {
namespace {

std::uint64_t location_key(std::uint64_t file, std::uint64_t line, std::uint64_t column) {
  return file << 48 ^ line << 20 ^ column;
}

}  // namespace

void Parser::parse() {
  scopes_.emplace_back();
  open_.push_back(0);
  while (scan_.peek() != '\0') {
    poll_.step();
    directive();
  }
  if (module_.version[0] == 0) scan_.fail("this is not PTX: there is no .version directive");
}

void Parser::directive() {
  if (scan_.peek() == '@') return scan_.skip_line();  // @@DWARF of old compilers
  Linkage linkage;
  for (;;) {
    if (scan_.peek() != '.') scan_.fail("expected a directive such as .entry");
    const std::string_view name = scan_.dotted();
    if (name == "visible" || name == "common") continue;
    if (name == "extern") {
      linkage.external = true;
    } else if (name == "weak") {
      linkage.weak = true;
    } else if (name == "entry" || name == "func") {
      return function(name == "entry", linkage);
    } else if (name == "version") {
      return version();
    } else if (name == "target") {
      return target();
    } else if (name == "address_size") {
      if (scan_.number().bits != 64) scan_.fail("only .address_size 64 is supported");
      return;
    } else if (name == "file") {
      return file();
    } else if (name == "section") {
      return section();
    } else if (name == "pragma") {
      scan_.string();
      return scan_.expect(';');
    } else if (name == "global" || name == "const" || name == "shared") {
      const Space space = name == "global"  ? Space::kGlobal
                          : name == "const" ? Space::kConst
                                            : Space::kShared;
      return variable(space, linkage);
    } else if (name == "loc") {
      return location();
    } else {
      scan_.fail("unknown directive ." + std::string(name));
    }
  }
}

void Parser::version() {
  const std::uint32_t line = scan_.line();
  const Number number = scan_.number();  // "9.0" scans as a decimal
  if (number.kind != Number::Kind::kFloat64) throw PtxError(line, 1, "expected .version major.minor");
  const double value = std::bit_cast<double>(number.bits);
  if (!(value >= 1 && value < 100)) throw PtxError(line, 1, "unknown PTX version");
  module_.version[0] = static_cast<unsigned>(value);
  module_.version[1] = static_cast<unsigned>((value - module_.version[0]) * 10 + 0.5);
}

void Parser::target() {
  module_.target = std::string(scan_.word());
  while (scan_.accept(',')) scan_.word();
}

void Parser::file() {
  const std::uint32_t index = small("a file's number");
  module_.files[index] = std::string(scan_.string());
  while (scan_.accept(',')) scan_.number();  // time stamp, size
}

// Only .debug_str is read: it names inlined functions.
void Parser::section() {
  const std::string_view name = scan_.dotted();
  if (name != "debug_str") return scan_.skip_braces();
  scan_.expect('{');
  std::string_view label;
  while (!scan_.accept('}')) {
    if (scan_.at_word()) {
      label = scan_.word();
      scan_.expect(':');
      continue;
    }
    if (scan_.dotted() != "b8") scan_.fail("expected .b8 data in .debug_str");
    do {
      const auto value = static_cast<char>(scan_.number().bits);
      if (value != 0) module_.debug_strings[label] += value;
    } while (scan_.accept(','));
  }
}

// .loc file line column [, function_name label [+ offset], inlined_at file line column]
void Parser::location() {
  Location place;
  place.file = small("a file's number");
  place.line = small("a line");
  place.column = small("a column");
  while (scan_.accept(',')) {
    const std::string_view what = scan_.word();
    if (what == "function_name") {
      place.function_label = scan_.word();
      if (scan_.accept('+')) scan_.number();
    } else if (what == "inlined_at") {
      const std::uint64_t file = scan_.number().bits, line = scan_.number().bits,
                          column = scan_.number().bits;
      const auto found = latest_location_.find(location_key(file, line, column));
      if (found != latest_location_.end()) place.inlined_at = found->second;
    } else {
      scan_.fail("unknown .loc attribute " + std::string(what));
    }
  }
  location_ = static_cast<std::uint32_t>(module_.locations.size());
  module_.locations.push_back(place);
  latest_location_[location_key(place.file, place.line, place.column)] = location_;
}

// A number of 32 bits.
std::uint32_t Parser::small(const char* what) {
  return static_cast<std::uint32_t>(scan_.integer(0xffffffffu, what));
}

Extent Parser::extent() {
  Extent result{1, 1, 1};
  unsigned i = 0;
  do {
    if (i == 3) scan_.fail("at most three extents");
    result[i++] = small("an extent");
  } while (scan_.accept(','));
  return result;
}

void Parser::function(bool entry, Linkage linkage) {
  while (scan_.peek() == '.') {  // .func .attribute(...) and similar
    const std::string_view name = scan_.dotted();
    if (name != "attribute") scan_.fail("unknown function attribute ." + std::string(name));
    scan_.expect('(');
    scan_.dotted();
    scan_.expect(')');
  }
  Function head;
  head.entry = entry;
  head.line = scan_.line();
  module_.functions.push_back(std::move(head));
  function_ = static_cast<std::uint32_t>(module_.functions.size() - 1);
  scopes_.resize(1);
  open_.assign(1, 0);
  open_scope();
  location_ = kNoIndex;
  if (!entry && scan_.peek() == '(') parameters(current().returns);
  current().name = scan_.word();
  if (scan_.peek() == '(') parameters(current().parameters);
  function_directives();
  if (scan_.accept(';')) {
    if (find_function(current().name) != kNoIndex) {
      module_.functions.pop_back();  // declared again
    } else {
      function_ids_[current().name] = function_;
    }
    return close_function();
  }
  if (linkage.external) scan_.fail("an .extern function has no body");
  const std::uint32_t declared = find_function(current().name);
  if (declared != kNoIndex) {
    if (module_.functions[declared].defined) {
      scan_.fail("function " + std::string(current().name) + " is defined twice");
    }
    module_.functions[declared] = std::move(module_.functions.back());
    module_.functions.pop_back();
    for (const std::uint32_t symbol : module_.functions[declared].parameters) {
      if (!module_.functions[declared].register_parameters) module_.symbols[symbol].function = declared;
    }
    function_ = declared;
  } else {
    function_ids_[current().name] = function_;
  }
  current().defined = true;
  body();
  finish_function();
}

void Parser::function_directives() {
  while (scan_.peek() == '.') {
    const std::string_view name = scan_.dotted();
    if (name == "maxntid") {
      current().maxntid = extent();
    } else if (name == "reqntid") {
      current().reqntid = extent();
    } else if (name == "reqnctapercluster") {
      current().reqnctapercluster = extent();
    } else if (name == "minnctapersm" || name == "maxnctapersm") {
      current().minnctapersm = small("a number of CTAs");
    } else if (name == "maxnreg") {
      current().maxnreg = small("a number of registers");
    } else if (name == "maxclusterrank") {
      scan_.number();
    } else if (name == "pragma") {
      scan_.string();
      scan_.expect(';');
    } else if (name != "noreturn" && name != "explicitcluster" && name != "blocksareclusters") {
      scan_.fail("unknown function directive ." + std::string(name));
    }
  }
}

// ( .param .align 8 .b8 name[128], .param .u64 .ptr .global .align 16 name, .reg .b32 name )
void Parser::parameters(std::vector<std::uint32_t>& into) {
  scan_.expect('(');
  if (scan_.accept(')')) return;
  do {
    const std::string_view storage = scan_.dotted();
    if (storage != "param" && storage != "reg") scan_.fail("expected .param or .reg");
    Symbol symbol;
    symbol.space = Space::kParam;
    symbol.function = function_;
    bool typed = false;
    bool pointer = false;
    bool placed = false;  // the state space that a pointer points into was given
    while (scan_.peek() == '.') {
      const std::string_view word = scan_.dotted();
      if (word == "align") {
        if (pointer)
          small(".align");  // of what it points to
        else
          symbol.align = alignment();
      } else if (word == "ptr") {
        if (pointer || !typed) scan_.fail(".ptr follows a parameter's type, once");
        pointer = true;
      } else if (const Type type = type_from_name(word); type != Type::kNone) {
        if (typed) scan_.fail("a parameter has one type; got ." + std::string(word) + ", too");
        symbol.type = type;
        typed = true;
      } else if (pointer && !placed &&
                 (word == "global" || word == "shared" || word == "const" || word == "local")) {
        placed = true;
      } else {
        scan_.fail("unknown parameter attribute ." + std::string(word));
      }
    }
    if (!typed) scan_.fail("a parameter has a type, such as .u64");
    symbol.line = scan_.line();
    symbol.name = scan_.word();
    symbol.bytes = type_bytes(symbol.type);
    symbol.align = std::max(symbol.align, type_bytes(symbol.type));
    if (storage == "reg") {
      current().register_parameters = true;
      const auto index = static_cast<std::uint32_t>(current().registers.size());
      current().registers.push_back(symbol.type);
      current().register_groups.push_back({symbol.name, index, 1, false});
      scope().registers[symbol.name] = index;
      into.push_back(index);
      continue;
    }
    bool unsized = false;
    symbol.bytes = array_bytes(symbol.bytes, unsized);
    into.push_back(static_cast<std::uint32_t>(module_.symbols.size()));
    declare(std::move(symbol));
  } while (scan_.accept(','));
  scan_.expect(')');
}

void Parser::open_scope() {
  scopes_.emplace_back();
  scopes_.back().parent = open_.back();
  open_.push_back(static_cast<std::uint32_t>(scopes_.size() - 1));
}

void Parser::finish_function() {
  for (const Pending& pending : pending_) {
    Operand& operand = current().operands[pending.operand];
    const std::string_view name = current().names[operand.index];
    bool found = false;
    for (std::uint32_t scope = pending.scope; scope != kNoIndex && !found; scope = scopes_[scope].parent) {
      const auto label = scopes_[scope].labels.find(name);
      if (label == scopes_[scope].labels.end()) continue;
      operand.kind = OperandKind::kLabel;
      operand.index = label->second;
      found = true;
    }
    if (!found) throw PtxError(pending.line, 1, "undefined name " + std::string(name));
  }
  close_function();
}

void Parser::close_function() {
  pending_.clear();
  function_ = kNoIndex;
  location_ = kNoIndex;
  scopes_.resize(1);
  open_.assign(1, 0);
}

std::string register_name(const Function& function, std::uint32_t index) {
  for (const RegisterGroup& group : function.register_groups) {
    if (index < group.first || index - group.first >= group.count) continue;
    return std::string(group.name) + (group.numbered ? std::to_string(index - group.first) : "");
  }
  return std::string("r").append(std::to_string(index));
}

Module parse_module(std::string text, std::string name, const std::function<bool()>& interrupted) {
  const PlainArithmetic plain;  // for constants
  Module module;
  module.text = std::move(text);
  module.name = std::move(name);
  Parser(module, Poll(&interrupted)).parse();
  return module;
}

}  // namespace sglab::emu
