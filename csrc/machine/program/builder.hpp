#pragma once

#include <span>
#include <string>

#include "isa/extra.hpp"
#include "isa/inst.hpp"
#include "isa/table.hpp"
#include "isa/types.hpp"
#include "machine/float/mode.hpp"
#include "machine/front/module.hpp"

namespace sglab::emu {

class Decoder;

// Where Inst keeps a register reference, for the register allocator. Values from kExtra on are Extra::refs.
enum class Field : std::uint16_t { kD, kA, kB, kC, kTarget, kGuard, kExtra };

// What a row's build function works with: it reads one statement's operands and fills one Inst.
// A build function names operands by position; wrong ones throw PtxError with the statement's line.
class Builder {
 public:
  Builder(Decoder& decoder, const Function& function, const Statement& statement, const Form& form)
      : form(form), statement(statement), effects(form.effects), decoder_(decoder), function_(function) {}

  const Form& form;
  const Statement& statement;
  Inst inst{};
  Effects effects;  // the form's; build functions settle what depends on operands

  // Fills `inst` as the row says.
  void build();
  // For build functions of lane-local instructions whose destination width varies: chooses Inst::fn for a
  // body that may write all lanes of the register that Inst::d names.
  void lanewise(char letter, Handler body);

  unsigned count() const { return statement.operand_count; }
  const Operand& operand(unsigned index) const;  // throws if there are too few
  std::span<const Operand> children(const Operand& parent) const;
  void expect_count(unsigned least, unsigned most) const;
  bool has(std::string_view part) const { return form.has(part); }
  Type type(unsigned n = 0) const { return type_from_name(form.type(n)); }

  // A destination register. `letter` as in Table::alu; '*': any register of at least 16 bits, whose letter is
  // returned.
  char def(Field field, const Operand& operand, char letter);
  // A source: register, constant or symbol address.
  char use(Field field, const Operand& operand, char letter);
  // A register that is read and written (accumulators).
  char update(Field field, const Operand& operand, char letter);
  // The same for an operand kept in Extra::refs; returns its index there.
  std::uint32_t def_extra(const Operand& operand, char letter);
  std::uint32_t use_extra(const Operand& operand, char letter);
  std::uint32_t update_extra(const Operand& operand, char letter);
  // All registers of {a, b, …}, or of a single one, into Extra::refs.
  unsigned def_vector(const Operand& operand, char letter);
  unsigned use_vector(const Operand& operand, char letter);
  unsigned update_vector(const Operand& operand, char letter);

  // [base+offset] into a, imm and mode; returns the symbol's space if the base is a symbol, else kGeneric.
  Space address(const Operand& operand);
  // The same with the base kept in Extra::refs.
  ExtraAddress address_extra(const Operand& operand);
  // Whether an address's base is a .param variable of a call or of a .func, which is in local memory.
  bool local_parameter(const Operand& address) const;
  // Whether [imm, imm + bytes) lies within the kernel's parameters.
  bool in_parameters(unsigned bytes) const;
  // The register of a load (or, `read`, a store): Inst::d, or the next of Extra::refs. Returns its letter.
  char element(const Operand& operand, char letter, bool read, bool in_extra);
  std::int64_t integer(const Operand& operand) const;  // must be an integer constant
  // The same, from `least` to `most`; `what` names it.
  std::int64_t integer(const Operand& operand, std::int64_t least, std::int64_t most, const char* what) const;
  void branch(const Operand& operand);  // Inst::target becomes the label's instruction
  void set_rounding();                  // Inst::mode from .rn/.rz/.rm/.rp and .ftz
  // The registers this instruction defines are filled by the next wait (wgmma): they keep their places until
  // then.
  void fills_later();
  // This instruction is such a wait. `all`: nothing is left to be filled after it.
  void filled_here(bool all);
  Extra& extra();
  bool entry() const;  // inside an .entry rather than a .func
  const Module& module() const;
  const Function& function() const { return function_; }
  Decoder& decoder() { return decoder_; }

  // What copies a special register into a register of this letter.
  Handler special_reader(char letter) const;
  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse(const char* why) const;  // for code compiled per instruction set

 private:
  Ref resolve(const Operand& operand, char letter, char& found, bool definition, bool& is_register);
  void record(Field field, Ref reference, bool definition);

  Decoder& decoder_;
  const Function& function_;
  Extra* extra_ = nullptr;
};

// Register width letters; see Table::alu.
char letter_of(Type type);
unsigned letter_bytes(char letter);
// Which of Support::merged and Support::guarded_merged serve registers of this letter.
unsigned width_index(char letter);

}  // namespace sglab::emu
