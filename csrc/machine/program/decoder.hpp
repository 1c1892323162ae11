#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "machine/front/poll.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {

// One mention of a register by an instruction, in instruction order.
struct Site {
  std::uint32_t inst;
  std::uint32_t reg;  // Program::registers
  std::uint16_t field;
  bool definition;
};

constexpr std::uint16_t kNoField = 0xffff;  // a mention that no operand shows

// How control leaves an instruction.
enum class Flow : std::uint8_t { kNext, kBranch, kJump, kTable, kExit };

// Turns a kernel's statements, and those of the functions it calls, into a Program.
class Decoder {
 public:
  Decoder(Program& program, const Image& image, Poll poll) : program_(program), image_(image), poll_(poll) {}
  void decode(std::uint32_t kernel);

  // For Builder:
  const Module& module() const { return image_.module(); }
  Program& program() { return program_; }
  Poll& poll() { return poll_; }
  std::uint32_t register_index(std::uint32_t function_register) const {
    return first_register_ + function_register;
  }
  std::uint32_t temporary(char letter);
  char letter(std::uint32_t reg) const { return letters_[reg]; }
  Ref constant(char letter, std::uint64_t value);
  Extra& extra();
  void site(std::uint16_t field, std::uint32_t reg, bool definition);
  void branch_to(std::uint32_t label, Flow flow);
  void leave(Flow flow);  // the instruction being built leaves the straight line
  void emit_support(Handler handler, std::uint32_t destination, std::int64_t imm);
  // Offset of a .shared, .local or .param variable in its space; a host address for .global and .const.
  std::uint64_t symbol_offset(std::uint32_t symbol);
  std::uint32_t called(std::uint32_t function);  // index in Program::functions
  void calls(std::uint32_t callee) { calls_.emplace_back(function_, callee); }
  void calls_indirectly() { indirect_callers_.push_back(function_); }
  void takes_address(std::uint32_t function) { addressed_.push_back(called(function)); }
  void fills_later();
  void filled_here(bool all);
  void table_targets(const Function& function, std::uint32_t label, Extra& extra);

 private:
  struct Fixup {
    std::uint32_t inst;
    std::uint32_t label;
    BranchTargets* table;  // its `slot` instead of Inst::target
    std::uint32_t slot;
  };
  struct Refusal {
    std::string where;
    std::uint32_t times = 0;
  };
  friend class RegisterAllocator;

  void layout_parameters(std::uint32_t kernel);
  void function(std::uint32_t index);
  void statement(const Function& function, const Statement& statement);
  void emit(Builder& builder);
  void reserve(std::size_t instructions);
  void add(const Inst& inst, const Place& place, const Effects& effects);
  void place_labels(const Function& function, std::uint32_t statement_index, std::size_t& next_label);
  void refuse(const Statement& statement, const std::string& what);
  const Form& form(std::uint32_t opcode);
  std::uint32_t static_shared(const Symbol& symbol);
  std::uint32_t local(std::uint64_t bytes, std::uint32_t align);
  void place_shared();
  void address_tables();
  void find_recursion();
  void keep_late_registers();
  void mention_wait(std::uint32_t wait, std::uint32_t reg);

  Program& program_;
  const Image& image_;
  Poll poll_;
  std::uint32_t function_ = 0;
  std::uint32_t first_register_ = 0;
  std::vector<char> letters_;
  std::vector<Site> sites_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> late_;   // registers that an asynchronous operation is still to fill
  std::vector<std::uint32_t> waits_;  // the function's waits so far
  std::vector<std::uint32_t> label_pc_;
  std::vector<bool> joins_;  // labels that some branch names
  std::vector<Fixup> fixups_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // branch, target
  std::map<std::pair<char, std::uint64_t>, Ref> constant_refs_;
  std::vector<std::uint8_t> constants_;
  std::unordered_map<std::uint32_t, std::uint64_t> offsets_;
  std::unordered_map<std::uint32_t, std::uint32_t> function_ids_;
  std::unordered_map<std::uint32_t, Form> forms_;
  std::map<std::string, Refusal> refused_;  // by cause
  std::uint32_t shared_ = 0;
  std::uint32_t targets_ = 0;  // of jump tables, each counted as often as it is used
  std::vector<std::pair<std::uint32_t, std::uint32_t>> calls_;  // caller, callee; Program::functions
  std::vector<std::uint32_t> indirect_callers_, addressed_;
  bool tables_done_ = false;
};

inline std::uint64_t round_up(std::uint64_t value, std::uint64_t align) {
  return (value + align - 1) / align * align;
}

// program/registers.cpp: gives the registers of instructions [begin, end) their places in the register file.
void allocate_registers(Decoder& decoder, std::uint32_t begin, std::uint32_t end);

// program/order.cpp: in which order diverged lanes should run, so that they meet again as early as possible.
void order_blocks(Program& program, std::uint32_t begin, std::uint32_t end, const std::vector<Flow>& flows,
                  const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges, Poll& poll);

}  // namespace sglab::emu
