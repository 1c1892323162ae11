#include <algorithm>
#include <utility>

#include "machine/front/parser.hpp"

// Entries and functions: what stands between their names and their bodies.
namespace sglab::emu {
namespace {

constexpr std::size_t kLongestName = 16384;  // of an entry; CUTLASS's longest have some 3,000 letters
constexpr std::size_t kShownLetters = 80;    // of a name, in a message
constexpr std::uint32_t kLargestParameterAlign = 128;
constexpr std::uint32_t kLargestPointee = 1u << 31;   // alignment of what a pointer points to
constexpr std::uint64_t kMostParameterBytes = 32764;  // of one kernel, as CUDA 12.1 passes them

// What begins a statement of its own, so that a function which it interrupts has no body.
bool begins_statement(std::string_view name) {
  return name == "entry" || name == "func" || name == "visible" || name == "extern" || name == "weak";
}

std::string shown(std::string_view name) {
  return std::string(name.substr(0, kShownLetters));
}

}  // namespace

void Parser::function(bool entry, Linkage linkage) {
  while (scan_.peek() == '.') {  // .func .attribute(...) and similar
    const std::string_view name = scan_.dotted();
    if (name != "attribute") scan_.fail("unknown function attribute ." + std::string(name));
    scan_.expect('(');
    scan_.dotted();
    scan_.expect(')');
  }
  if (header_only_ && !entry) return pass_declaration(true);
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
  if (entry && current().name.size() > kLongestName)
    scan_.fail("an entry's name has at most " + std::to_string(kLongestName) + " letters; " +
               shown(current().name) + "… has more");
  try {
    if (scan_.peek() == '(') parameters(current().parameters);
    if (entry) place_parameters();
    function_directives(current());
    if (scan_.peek() != '{' && scan_.peek() != ';') scan_.fail("neither a body nor a semicolon follows");
  } catch (const PtxError& error) {
    const char* const kind = entry ? "entry " : "function ";
    throw PtxError(error.line, error.column, kind + shown(current().name) + ": " + error.what());
  }
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
  if (header_only_) {
    pass_body();
  } else {
    body();
  }
  finish_function();
}

void Parser::function_directives(Function& of) {
  while (scan_.peek() == '.') {
    const std::string_view name = scan_.dotted();
    if (name == "maxntid") {
      of.maxntid = extent(name);
    } else if (name == "reqntid") {
      of.reqntid = extent(name);
    } else if (name == "reqnctapercluster") {
      of.reqnctapercluster = extent(name);
    } else if (name == "minnctapersm" || name == "maxnctapersm") {
      of.minnctapersm = small("a number of CTAs");
    } else if (name == "maxnreg") {
      of.maxnreg = small("a number of registers");
    } else if (name == "maxclusterrank") {
      scan_.number();
    } else if (name == "pragma") {
      pragma();
    } else if (name != "noreturn" && name != "explicitcluster" && name != "blocksareclusters") {
      if (!header_only_ || begins_statement(name))
        scan_.fail("unknown function directive ." + std::string(name));
      pass_to_directive();
    }
  }
}

// .reqntid 128, 2, 1
Extent Parser::extent(std::string_view directive) {
  Extent result{1, 1, 1};
  unsigned i = 0;
  do {
    if (i == 3) scan_.fail("." + std::string(directive) + " has one to three sizes");
    result[i] = small("a size");
    if (result[i++] == 0) scan_.fail("." + std::string(directive) + " has sizes of at least 1; got 0");
  } while (scan_.accept(','));
  return result;
}

// ( .param .align 8 .b8 name[128], .param .u64 .ptr .global .align 16 name, .reg .b32 name )
void Parser::parameters(std::vector<std::uint32_t>& into) {
  scan_.expect('(');
  if (scan_.accept(')')) return;
  do {
    const std::string_view storage = scan_.dotted();
    if (storage != "param" && storage != "reg") scan_.fail("expected .param or .reg");
    Symbol symbol = parameter();
    if (storage == "reg") {
      if (current().entry)
        scan_.fail(shown(symbol.name) + " is a register; an entry's parameters are .param");
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

// .align 8 .b8 name
Symbol Parser::parameter() {
  Symbol symbol;
  symbol.space = Space::kParam;
  symbol.function = function_;
  bool typed = false;
  bool pointer = false;
  bool placed = false;  // the state space that a pointer points into was given
  while (scan_.peek() == '.') {
    const std::string_view word = scan_.dotted();
    if (word == "align") {
      const std::uint32_t most = current().entry ? kLargestParameterAlign : kLargestAlignment;
      const std::uint32_t align = alignment(pointer ? kLargestPointee : most);
      if (!pointer) symbol.align = align;  // otherwise of what it points to
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
  return symbol;
}

// Where an entry's parameters lie in the buffer that a launch passes.
void Parser::place_parameters() {
  std::uint64_t at = 0;
  for (const std::uint32_t index : current().parameters) {
    Symbol& parameter = module_.symbols[index];
    const std::string name = shown(parameter.name);
    if (parameter.type == Type::kPred || is_packed(parameter.type))
      throw PtxError(
          parameter.line, 1,
          "a parameter, such as " + name + ", has no type ." + std::string(type_name(parameter.type)));
    if (parameter.bytes == 0) throw PtxError(parameter.line, 1, "the parameter " + name + " has no size");
    at = (at + parameter.align - 1) / parameter.align * parameter.align;
    parameter.offset = static_cast<std::uint32_t>(at);
    at += parameter.bytes;
    if (at > kMostParameterBytes)
      throw PtxError(parameter.line, 1,
                     "its parameters take " + std::to_string(at) + " bytes with " + name +
                         "; a kernel gets at most " + std::to_string(kMostParameterBytes) +
                         " bytes. Pass a pointer");
  }
  current().parameter_bytes = static_cast<std::uint32_t>(at);
}

// What a header leaves out: the rest of a declaration, up to its semicolon or over its body.
void Parser::pass_declaration(bool has_body) {
  for (;;) {
    const char next = scan_.peek();
    if (next == ';') return scan_.expect(';');
    if (next == '{') {
      scan_.skip_braces();
      if (has_body) return;
    } else if (next == '.') {
      const std::string_view name = scan_.dotted();
      if (begins_statement(name)) scan_.fail("expected ';' before ." + std::string(name));
      if (name == "pragma") pragma();
    } else {
      pass_token();
    }
  }
}

// What follows a directive that the machine does not know, up to the next directive or over a block or a
// semicolon. True: the statement is over.
bool Parser::pass_unknown() {
  pass_to_directive();
  if (scan_.accept(';')) return true;
  if (scan_.peek() != '{') return false;
  scan_.skip_braces();
  return true;
}

void Parser::pass_to_directive() {
  for (char next = scan_.peek(); next != '.' && next != ';' && next != '{'; next = scan_.peek()) pass_token();
}

void Parser::pass_token() {
  const char next = scan_.peek();
  if (next == '\0') scan_.fail("the text ends within a declaration");
  if (next == '"') {
    scan_.string();
  } else if (scan_.at_word()) {
    scan_.word();
  } else if (scan_.at_number()) {
    scan_.number();
  } else {
    scan_.expect(next);
  }
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

}  // namespace sglab::emu
