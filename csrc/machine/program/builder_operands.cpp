#include <bit>

#include "machine/front/special.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/decoder.hpp"
#include "machine/program/storage.hpp"

// Operands of a statement become references of an instruction.
namespace sglab::emu {

Handler Builder::special_reader(char letter) const {
  const Support& support = instruction_table().support;
  switch (storage(letter)) {
    case 'h':
      return support.special16;
    case 'w':
      return support.special32;
    case 'l':
      return support.special64;
    default:
      refuse("a special register is read as 16, 32 or 64 bits");
  }
}

Ref Builder::resolve(const Operand& operand, char letter, char& found, bool definition, bool& is_register) {
  is_register = false;
  const char wanted = storage(letter);
  found = wanted;
  switch (operand.kind) {
    case OperandKind::kRegister: {
      const std::uint32_t reg = decoder_.register_index(operand.index);
      found = decoder_.letter(reg);
      if (wanted != '*' && found != wanted) {
        refuse("register " + register_name(function_, operand.index) + " has the wrong size");
      }
      if (wanted == '*' && found == 'p') refuse("a predicate register is not allowed here");
      is_register = true;
      return reg;
    }
    case OperandKind::kSink:
      if (!definition) refuse("'_' has no value to read");
      if (wanted == 'p') return 2;
      if (wanted == '*') found = letter_of(type());
      is_register = true;
      return decoder_.temporary(found);
    case OperandKind::kSpecial: {
      if (definition) break;
      const auto special = static_cast<Special>(operand.index);
      if (is_clock(special)) effects.motion = Motion::kFixed;
      const Support& support = instruction_table().support;
      if ((wanted == 'p') != (special == Special::kIsExplicitCluster)) break;
      is_register = true;
      if (wanted == 'p') {
        found = 'p';
        const std::uint32_t flag = decoder_.temporary('p');
        decoder_.emit_support(support.explicit_cluster, flag, 0);
        return flag;
      }
      found = wanted == '*' ? 'w' : wanted;
      const Handler reader = special_reader(found);
      const std::uint32_t reg = decoder_.temporary(found);
      decoder_.emit_support(reader, reg, static_cast<std::int64_t>(special));
      return reg;
    }
    case OperandKind::kInteger:
    case OperandKind::kFloat32:
    case OperandKind::kFloat64: {
      if (definition) break;
      if (wanted == 'p') return operand.value != 0 ? kTrueRef : kFalseRef;
      if (wanted == '*') found = letter_of(type());
      auto value = static_cast<std::uint64_t>(operand.value);
      const bool wide = operand.kind == OperandKind::kFloat64;
      if (wide && letter_bytes(found) == 4) {
        value = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(value)));
      } else if (operand.kind == OperandKind::kFloat32 && letter == 'd') {
        value = std::bit_cast<std::uint64_t>(
            static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(value))));
      } else if (operand.kind == OperandKind::kInteger && (letter == 'f' || letter == 'd')) {
        refuse("an integer constant cannot be a floating-point operand");
      }
      return decoder_.constant(found, value);
    }
    case OperandKind::kSymbol: {
      if (definition) break;
      if (wanted != 'w' && wanted != 'l') refuse("an address needs a 32- or 64-bit operand");
      const Symbol& symbol = module().symbols[operand.index];
      const std::uint64_t value =
          decoder_.symbol_offset(operand.index) + static_cast<std::uint64_t>(operand.value);
      if (symbol.space != Space::kShared) return decoder_.constant(wanted, value);
      const std::uint32_t reg = decoder_.temporary(wanted);
      const Support& support = instruction_table().support;
      decoder_.emit_support(wanted == 'l' ? support.window64 : support.window32, reg,
                            static_cast<std::int64_t>(value));
      is_register = true;
      return reg;
    }
    case OperandKind::kFunction:
      if (definition || wanted != 'l') break;
      decoder_.takes_address(operand.index);
      return decoder_.constant('l', Image::function_address(operand.index));
    default:
      break;
  }
  refuse("this kind of operand is not allowed here");
}

void Builder::record(Field field, Ref reference, bool definition) {
  decoder_.site(static_cast<std::uint16_t>(field), reference, definition);
}

char Builder::def(Field field, const Operand& operand, char letter) {
  char found;
  bool is_register;
  const Ref reference = resolve(operand, letter, found, true, is_register);
  Ref Inst::* const place[] = {&Inst::d, &Inst::a, &Inst::b, &Inst::c, &Inst::target};
  inst.*place[static_cast<unsigned>(field)] = reference;
  if (is_register) record(field, reference, true);
  return found;
}

char Builder::use(Field field, const Operand& operand, char letter) {
  char found;
  bool is_register;
  Ref reference = resolve(operand, letter, found, false, is_register);
  Ref Inst::* const place[] = {&Inst::d, &Inst::a, &Inst::b, &Inst::c, &Inst::target};
  if (operand.negated) {
    if (storage(letter) != 'p') refuse("only predicates can be negated");
    reference |= kNegatedRef;
  }
  inst.*place[static_cast<unsigned>(field)] = reference;
  if (is_register) record(field, reference & ~kNegatedRef, false);
  return found;
}

char Builder::update(Field field, const Operand& operand, char letter) {
  if (operand.kind != OperandKind::kRegister) refuse("expected a register");
  const char found = use(field, operand, letter);
  def(field, operand, letter);
  return found;
}

std::uint32_t Builder::def_extra(const Operand& operand, char letter) {
  char found;
  bool is_register;
  const auto index = static_cast<std::uint32_t>(extra().refs.size());
  const Ref reference = resolve(operand, letter, found, true, is_register);
  extra().refs.push_back(reference);
  if (is_register)
    decoder_.site(static_cast<std::uint16_t>(static_cast<unsigned>(Field::kExtra) + index), reference, true);
  return index;
}

std::uint32_t Builder::use_extra(const Operand& operand, char letter) {
  char found;
  bool is_register;
  const auto index = static_cast<std::uint32_t>(extra().refs.size());
  const Ref reference = resolve(operand, letter, found, false, is_register);
  extra().refs.push_back(operand.negated ? reference | kNegatedRef : reference);
  if (is_register)
    decoder_.site(static_cast<std::uint16_t>(static_cast<unsigned>(Field::kExtra) + index), reference, false);
  return index;
}

std::uint32_t Builder::update_extra(const Operand& operand, char letter) {
  if (operand.kind != OperandKind::kRegister) refuse("expected a register");
  const std::uint32_t index = use_extra(operand, letter);
  decoder_.site(static_cast<std::uint16_t>(static_cast<unsigned>(Field::kExtra) + index),
                decoder_.register_index(operand.index), true);
  return index;
}

unsigned Builder::def_vector(const Operand& operand, char letter) {
  if (operand.kind != OperandKind::kVector) return def_extra(operand, letter), 1;
  for (const Operand& child : children(operand)) def_extra(child, letter);
  return operand.count;
}

unsigned Builder::use_vector(const Operand& operand, char letter) {
  if (operand.kind != OperandKind::kVector) return use_extra(operand, letter), 1;
  for (const Operand& child : children(operand)) use_extra(child, letter);
  return operand.count;
}

unsigned Builder::update_vector(const Operand& operand, char letter) {
  if (operand.kind != OperandKind::kVector) return update_extra(operand, letter), 1;
  for (const Operand& child : children(operand)) update_extra(child, letter);
  return operand.count;
}

char Builder::element(const Operand& operand, char letter, bool read, bool in_extra) {
  if (!in_extra) return read ? use(Field::kD, operand, letter) : def(Field::kD, operand, letter);
  char found;
  bool is_register;
  const auto index = static_cast<unsigned>(extra().refs.size());
  const Ref reference = resolve(operand, letter, found, !read, is_register);
  extra().refs.push_back(reference);
  if (is_register)
    decoder_.site(static_cast<std::uint16_t>(static_cast<unsigned>(Field::kExtra) + index), reference, !read);
  return found;
}

}  // namespace sglab::emu
