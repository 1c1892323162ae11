#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isa/types.hpp"

// What the parser makes of PTX text: names resolved, instructions still spelt as text. Views point into
// Module::text.
namespace sglab::emu {

constexpr std::uint32_t kNoIndex = 0xffffffffu;

enum class OperandKind : std::uint8_t {
  kRegister,  // index: the function's register
  kSpecial,   // index: a SpecialRegister
  kInteger,   // value
  kFloat32,   // value: bits (0f3F800000)
  kFloat64,   // value: bits (0d… or a decimal literal)
  kSymbol,    // index: Module::symbols; value: byte offset
  kLabel,     // index: Function::labels
  kFunction,  // index: Module::functions
  kAddress,   // children: base, then anything after commas; value: byte offset
  kVector,    // children: {a, b, …}
  kList,      // children: (a, b, …)
  kPair,      // children: a|b
  kSink,      // _
  kName,      // not yet resolved; index: Function::names
};

struct Operand {
  OperandKind kind = OperandKind::kSink;
  bool negated = false;     // !p
  std::uint16_t count = 0;  // children
  std::uint32_t index = 0;  // see OperandKind; first child for compound operands
  std::int64_t value = 0;
};

struct Statement {
  std::uint32_t opcode;         // Module::opcodes
  std::uint32_t first_operand;  // Function::operands
  std::uint16_t operand_count;
  bool guard_negated;
  std::uint32_t guard;  // register, or kNoIndex
  std::uint32_t line;
  std::uint32_t location;  // Module::locations, or kNoIndex
};

// An address stored by an initialiser: `value` is added to the symbol's address.
struct Relocation {
  std::uint32_t at;
  std::uint32_t symbol;    // or kNoIndex
  std::uint32_t function;  // or kNoIndex
  std::int64_t value;
  bool generic;
  std::uint8_t bytes;
};

struct Symbol {
  std::string_view name;
  std::uint32_t line = 1;
  Space space = Space::kGlobal;
  Type type = Type::kB8;
  std::uint32_t align = 1;
  std::uint64_t bytes = 0;   // 0: an unsized extern array
  std::uint32_t offset = 0;  // of an entry's parameter, among all of them
  bool external = false;
  std::uint32_t function = kNoIndex;  // owner of a variable declared inside a function
  std::vector<std::uint8_t> initial;
  std::vector<Relocation> relocations;
};

struct Label {
  std::string_view name;
  std::uint32_t statement;
};

// `label: .branchtargets a, b;`
struct TargetTable {
  std::uint32_t first_operand;  // Function::operands, labels
  std::uint32_t count;
};

// `.reg .b32 %r<64>;` or `.reg .b32 tmp;`
struct RegisterGroup {
  std::string_view name;
  std::uint32_t first;
  std::uint32_t count;
  bool numbered;
};

// A source line as `.loc` gives it. `inlined_at` is another location.
struct Location {
  std::uint32_t file;
  std::uint32_t line;
  std::uint32_t column;
  std::uint32_t inlined_at = kNoIndex;
  std::string_view function_label;  // label in .debug_str, or empty
};

using Extent = std::array<std::uint32_t, 3>;

struct Function {
  std::string_view name;
  bool entry = false;
  bool defined = false;
  std::uint32_t line = 0;
  std::vector<std::uint32_t> parameters;  // symbols (space kParam), or registers of `.reg` parameters
  std::vector<std::uint32_t> returns;
  bool register_parameters = false;
  std::vector<Type> registers;
  std::vector<RegisterGroup> register_groups;
  std::vector<Statement> body;
  std::vector<Operand> operands;
  std::vector<Label> labels;
  std::unordered_map<std::uint32_t, TargetTable> tables;        // by label
  std::unordered_map<std::uint32_t, std::uint32_t> prototypes;  // label -> Module::functions
  std::vector<std::string_view> names;
  Extent maxntid{0, 0, 0};
  Extent reqntid{0, 0, 0};
  Extent reqnctapercluster{0, 0, 0};
  std::uint32_t parameter_bytes = 0;  // of an entry
  std::uint32_t minnctapersm = 0;
  std::uint32_t maxnreg = 0;
};

struct Module {
  std::string text;
  std::string name;
  std::string target;
  std::array<unsigned, 2> version{0, 0};
  std::vector<std::string_view> opcodes;
  std::vector<Symbol> symbols;
  std::vector<Function> functions;
  std::vector<Location> locations;
  std::unordered_map<std::uint32_t, std::string> files;
  std::unordered_map<std::string_view, std::string> debug_strings;
};

std::string register_name(const Function& function, std::uint32_t index);

// Throws PtxError; Interrupted if `interrupted`, asked every 30 ms, says so.
Module parse_module(std::string text, std::string name, const std::function<bool()>& interrupted = {});

// Only version, target and entries, whose bodies stay empty: what a launch on any device needs. It reads them
// as parse_module does, and passes over what that would refuse elsewhere in the text. Views point into
// `text`.
Module parse_header(std::string_view text, std::string name, const std::function<bool()>& interrupted = {});

}  // namespace sglab::emu
