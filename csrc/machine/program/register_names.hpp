#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/program/program.hpp"

namespace sglab::emu {

// Finds the register of the PTX text that is held in a place at a time: they share places.
class RegisterNames {
 public:
  explicit RegisterNames(const Program& program);

  struct Named {
    std::uint32_t reg;  // Program::registers
    const Function* function;
    std::uint32_t index;  // in the function
  };
  // nullptr for one that the decoder added.
  const Named* find(const Mention& mention) const;

 private:
  using Places = std::vector<std::vector<Named>>;  // by place, in order of their lifetimes
  std::uint32_t start(const Named& one) const { return program_.lifetimes[one.reg].start; }

  const Program& program_;
  Places values_, predicates_;
};

// The instructions that write a register as the PTX text spells it ("%r12"), in order. What an asynchronous
// operation fills is written where it is issued.
std::vector<std::uint32_t> writers_of(const Program& program, std::string_view name);

// Conversions of 32-bit integers (Cost::kIntegerToFloat) whose register is cut to 16 bits where it is
// written, as ptxas sees, too: by a shift, a mask or a widening cvt. By instruction.
std::vector<bool> converts_halves(const Program& program);

}  // namespace sglab::emu
