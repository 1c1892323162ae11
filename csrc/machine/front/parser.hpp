#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "machine/front/module.hpp"
#include "machine/front/poll.hpp"
#include "machine/front/scanner.hpp"

namespace sglab::emu {

// One pass over the text: declarations become symbols, statements keep their opcode's spelling. Names that
// may be declared later (labels) are resolved when their function ends.
class Parser {
 public:
  Parser(Module& module, Poll poll) : module_(module), scan_(module.text), poll_(poll) {}
  void parse();

 private:
  struct Family {  // .reg .b32 %r<64>;
    std::uint32_t first;
    std::uint32_t count;
  };
  struct Scope {
    std::uint32_t parent = kNoIndex;
    std::unordered_map<std::string_view, Family> families;
    std::unordered_map<std::string_view, std::uint32_t> registers;
    std::unordered_map<std::string_view, std::uint32_t> symbols;
    std::unordered_map<std::string_view, std::uint32_t> labels;
  };
  struct Pending {  // an operand whose name is still unknown
    std::uint32_t operand;
    std::uint32_t scope;
    std::uint32_t line;
  };
  struct Linkage {
    bool external = false;
    bool weak = false;
  };

  // parser.cpp: the module
  void directive();
  void version();
  void target();
  void file();
  void section();
  void location();
  void function(bool entry, Linkage linkage);
  void function_directives();
  void parameters(std::vector<std::uint32_t>& into);
  Extent extent();
  std::uint32_t small(const char* what);
  void finish_function();
  void close_function();

  // variables.cpp: declarations
  void registers();
  void variable(Space space, Linkage linkage);
  void declare(Symbol symbol);
  std::uint32_t alignment();
  std::uint64_t array_bytes(std::uint64_t element, bool& unsized);
  void initialiser(Symbol& symbol, std::uint64_t limit);
  void initial_list(Symbol& symbol, unsigned element, std::uint64_t& at, std::uint64_t limit);
  void initial_value(Symbol& symbol, unsigned element, std::uint64_t& at, std::uint64_t limit);
  std::int64_t constant();
  std::int64_t constant_binary(int precedence);
  std::int64_t constant_unary();

  // body.cpp: statements
  void body();
  void body_directive();
  void label_directive(std::uint32_t label);
  void prototype(std::uint32_t label);
  void statement();
  void instruction(std::string_view opcode, std::uint32_t guard, bool negated, std::uint32_t line);
  Operand operand();
  Operand simple_operand();
  Operand address();
  Operand compound(char close, OperandKind kind);
  Operand named(std::string_view name);
  Operand adopt(OperandKind kind, const std::vector<Operand>& children);
  std::uint32_t find_register(std::string_view name) const;
  std::uint32_t find_symbol(std::string_view name) const;
  std::uint32_t find_function(std::string_view name) const;
  std::uint32_t opcode_id(std::string_view opcode);

  Function& current() { return module_.functions[function_]; }
  Scope& scope() { return scopes_[open_.back()]; }
  void open_scope();

  Module& module_;
  Scanner scan_;
  Poll poll_;
  std::uint32_t function_ = kNoIndex;
  std::uint32_t location_ = kNoIndex;
  int depth_ = 0;
  std::size_t registers_ = 0;        // of all functions
  std::vector<Scope> scopes_;        // of the current function; [0] is the module's
  std::vector<std::uint32_t> open_;  // the chain of open scopes
  std::vector<Pending> pending_;
  std::unordered_map<std::string_view, std::uint32_t> opcode_ids_;
  std::unordered_map<std::string_view, std::uint32_t> function_ids_;
  std::unordered_map<std::uint64_t, std::uint32_t> latest_location_;  // by file, line and column
};

}  // namespace sglab::emu
