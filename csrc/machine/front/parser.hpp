#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "machine/front/module.hpp"
#include "machine/front/poll.hpp"
#include "machine/front/scanner.hpp"

namespace sglab::emu {

// One pass over the text: declarations become symbols, statements keep their opcode's spelling. Names that
// may be declared later (labels) are resolved when their function ends. With `header_only` it reads entries
// up to their bodies by the same rules, and passes over bodies, functions and variables.
class Parser {
 public:
  Parser(Module& module, std::string_view text, Poll poll, bool header_only)
      : module_(module), scan_(text), poll_(poll), header_only_(header_only) {}
  void parse();
  // What an entry has between its braces, if only the header was read; empty if there is no such entry.
  std::string_view passed_body(std::string_view entry) const;

 private:
  static constexpr std::uint32_t kLargestAlignment = 4096;  // a page: what the image itself is aligned to

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
  void pragma();
  std::uint32_t small(const char* what);

  // functions.cpp: entries and functions without their bodies, and what a header leaves out
  void function(bool entry, Linkage linkage);
  void function_directives(Function& of);
  Extent extent(std::string_view directive);
  void parameters(std::vector<std::uint32_t>& into);
  Symbol parameter();
  void place_parameters();
  void finish_function();
  void close_function();
  void pass_body();
  void pass_declaration(bool has_body);
  bool pass_unknown();
  void pass_to_directive();
  void pass_token();

  // variables.cpp: declarations
  void registers();
  void variable(Space space, Linkage linkage);
  void declare(Symbol symbol);
  std::uint32_t alignment(std::uint32_t most);
  std::uint64_t array_bytes(std::uint64_t element, bool& unsized);
  void initialiser(Symbol& symbol, std::uint64_t limit);
  void initial_list(Symbol& symbol, unsigned element, std::uint64_t& at, std::uint64_t limit);
  void initial_value(Symbol& symbol, unsigned element, std::uint64_t& at, std::uint64_t limit);
  std::int64_t constant();
  std::int64_t constant_binary(int precedence);
  std::int64_t constant_unary();
  // Constants have 64 bits and wrap.
  static std::int64_t negative(std::int64_t value) {
    return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(value));
  }

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
  const bool header_only_;
  std::uint32_t function_ = kNoIndex;
  std::uint32_t location_ = kNoIndex;
  int depth_ = 0;
  std::size_t registers_ = 0;        // of all functions
  std::vector<Scope> scopes_;        // of the current function; [0] is the module's
  std::vector<std::uint32_t> open_;  // the chain of open scopes
  std::vector<Pending> pending_;
  std::unordered_map<std::string_view, std::uint32_t> opcode_ids_;
  std::unordered_map<std::string_view, std::uint32_t> function_ids_;
  std::unordered_map<std::uint64_t, std::uint32_t> latest_location_;          // by file, line and column
  std::vector<std::pair<std::string_view, std::string_view>> passed_bodies_;  // of entries, by name
};

}  // namespace sglab::emu
