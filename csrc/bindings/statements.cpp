#include "bindings/statements.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "machine/front/module.hpp"

namespace nb = nanobind;

namespace sglab::emu {
namespace {

// Registers of an operand that hold what it computes with: not those of addresses, and no predicates.
void add_registers(const Function& function, const Operand& operand, nb::list& names) {
  if (operand.kind == OperandKind::kRegister) {
    if (function.registers[operand.index] == Type::kPred) return;
    names.append(nb::cast(register_name(function, operand.index)));
  }
  if (operand.kind != OperandKind::kVector && operand.kind != OperandKind::kPair) return;
  for (std::uint32_t i = 0; i < operand.count; ++i)
    add_registers(function, function.operands[operand.index + i], names);
}

}  // namespace
}  // namespace sglab::emu

nb::list sglab::bindings::statements(const emu::Program& program) {
  using namespace sglab::emu;
  const Module& module = program.image->module();
  nb::list all;
  for (const ProgramFunction& owner : program.functions) {
    const Function& function = module.functions[owner.source];
    for (const Statement& statement : function.body) {
      nb::list operands;
      for (std::uint32_t i = 0; i < statement.operand_count; ++i) {
        nb::list names;
        add_registers(function, function.operands[statement.first_operand + i], names);
        operands.append(names);
      }
      all.append(nb::make_tuple(nb::cast(std::string(module.opcodes[statement.opcode])), operands));
    }
  }
  return all;
}

nb::list sglab::bindings::half_registers(const emu::Program& program) {
  using namespace sglab::emu;
  nb::list names;
  for (const ProgramFunction& owner : program.functions) {
    const Function& function = program.image->module().functions[owner.source];
    for (std::uint32_t i = 0; i < function.registers.size(); ++i) {
      if (function.registers[i] != Type::kPred && type_bytes(function.registers[i]) == 2)
        names.append(nb::cast(register_name(function, i)));
    }
  }
  return names;
}
