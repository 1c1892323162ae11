#include "machine/program/builder.hpp"
#include "machine/program/decoder.hpp"

// Memory operands.
namespace sglab::emu {

Space Builder::address(const Operand& operand) {
  if (operand.kind != OperandKind::kAddress) refuse("expected an address in brackets");
  const Operand& base = children(operand)[0];
  inst.imm = operand.value;
  inst.mode = static_cast<std::uint8_t>(AddressMode::kAbsolute);
  if (base.kind == OperandKind::kInteger) {
    inst.imm += base.value;
    return Space::kGeneric;
  }
  if (base.kind == OperandKind::kSymbol) {
    const Symbol& symbol = module().symbols[base.index];
    const bool accesses = form.effects.act == Act::kAccess || form.effects.act == Act::kParameter;
    if (accesses && form.effects.space != Space::kGeneric && form.effects.space != symbol.space) {
      refuse("variable " + std::string(symbol.name) + " lies in ." + space_name(symbol.space) +
             ", the instruction accesses ." + space_name(form.effects.space));
    }
    inst.imm += static_cast<std::int64_t>(decoder_.symbol_offset(base.index));
    if (symbol.space == Space::kShared) inst.mode = static_cast<std::uint8_t>(AddressMode::kOwnCta);
    return symbol.space;
  }
  const char found = use(Field::kA, base, '*');
  if (found != 'w' && found != 'l') refuse("an address register has 32 or 64 bits");
  inst.mode = static_cast<std::uint8_t>(found == 'w' ? AddressMode::kReg32 : AddressMode::kReg64);
  return Space::kGeneric;
}

ExtraAddress Builder::address_extra(const Operand& operand) {
  if (operand.kind != OperandKind::kAddress) refuse("expected an address in brackets");
  const Operand& base = children(operand)[0];
  ExtraAddress at{AddressMode::kAbsolute, static_cast<std::uint32_t>(extra().refs.size()), operand.value};
  if (base.kind == OperandKind::kInteger) {
    at.offset += base.value;
    extra().refs.push_back(0);
  } else if (base.kind == OperandKind::kSymbol) {
    at.offset += static_cast<std::int64_t>(decoder_.symbol_offset(base.index));
    if (module().symbols[base.index].space == Space::kShared) at.mode = AddressMode::kOwnCta;
    extra().refs.push_back(0);
  } else {
    if (base.kind != OperandKind::kRegister) refuse("expected a register or a variable as address");
    const char found = decoder_.letter(decoder_.register_index(base.index));
    if (found != 'w' && found != 'l') refuse("an address register has 32 or 64 bits");
    use_extra(base, found);
    at.mode = found == 'w' ? AddressMode::kReg32 : AddressMode::kReg64;
  }
  return at;
}

bool Builder::local_parameter(const Operand& address) const {
  const Operand& base = children(address)[0];
  if (base.kind != OperandKind::kSymbol) return false;
  for (const std::uint32_t symbol : module().functions[decoder_.program().source].parameters) {
    if (symbol == base.index) return false;
  }
  return true;
}

bool Builder::in_parameters(unsigned bytes) const {
  return inst.imm >= 0 &&
         static_cast<std::uint64_t>(inst.imm) + bytes <= decoder_.program().parameter_bytes &&
         inst.imm % bytes == 0;
}

}  // namespace sglab::emu
