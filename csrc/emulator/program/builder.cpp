#include "emulator/program/builder.hpp"

#include <bit>

#include "emulator/front/error.hpp"
#include "emulator/front/special.hpp"
#include "emulator/memory/aperture.hpp"
#include "emulator/program/decoder.hpp"

namespace sglab::emu {
namespace {

unsigned width_index(char letter) {
  switch (letter) {
    case 'p':
      return 0;
    case 'b':
      return 1;
    case 'h':
      return 2;
    case 'w':
      return 3;
    case 'l':
      return 4;
    default:
      return 5;
  }
}

// Float letters share their width's registers.
char storage(char letter) {
  return letter == 'f' ? 'w' : letter == 'd' ? 'l' : letter == 'P' ? 'p' : letter;
}

}  // namespace

char letter_of(Type type) {
  if (type == Type::kPred) return 'p';
  switch (type_bytes(type)) {
    case 1:
      return 'b';
    case 2:
      return 'h';
    case 4:
      return 'w';
    case 8:
      return 'l';
    default:
      return 'x';
  }
}

unsigned letter_bytes(char letter) {
  switch (storage(letter)) {
    case 'b':
      return 1;
    case 'h':
      return 2;
    case 'w':
      return 4;
    case 'l':
      return 8;
    case 'x':
      return 16;
    default:
      return 0;
  }
}

const Module& Builder::module() const {
  return decoder_.module();
}
bool Builder::entry() const {
  return function_.entry;
}

void Builder::refuse(const std::string& why) const {
  throw PtxError(statement.line, 1, std::string(form.mnemonic) + ": " + why);
}

const Operand& Builder::operand(unsigned index) const {
  if (index >= count()) refuse("expected at least " + std::to_string(index + 1) + " operands");
  return function_.operands[statement.first_operand + index];
}

void Builder::refuse(const char* why) const {
  refuse(std::string(why));
}

std::span<const Operand> Builder::children(const Operand& parent) const {
  return {function_.operands.data() + parent.index, parent.count};
}

void Builder::expect_count(unsigned least, unsigned most) const {
  if (count() < least || count() > most) {
    refuse("expected " + std::to_string(least) + (most != least ? " to " + std::to_string(most) : "") +
           " operands, found " + std::to_string(count()));
  }
}

Extra& Builder::extra() {
  if (extra_ == nullptr) {
    extra_ = &decoder_.extra();
    inst.extra = extra_;
  }
  return *extra_;
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
      const Support& support = instruction_table().support;
      if ((wanted == 'p') != (special == Special::kIsExplicitCluster)) break;
      is_register = true;
      if (wanted == 'p') {
        found = 'p';
        const std::uint32_t flag = decoder_.temporary('p');
        decoder_.emit_support(support.explicit_cluster, flag, 0);
        return flag;
      }
      found = wanted == 'l' ? 'l' : 'w';
      const std::uint32_t reg = decoder_.temporary(found);
      decoder_.emit_support(found == 'l' ? support.special64 : support.special32, reg,
                            static_cast<std::int64_t>(special));
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

std::int64_t Builder::integer(const Operand& operand) const {
  if (operand.kind != OperandKind::kInteger) refuse("expected an integer constant");
  return operand.value;
}

void Builder::branch(const Operand& operand) {
  if (operand.kind != OperandKind::kLabel) refuse("expected a label");
  decoder_.branch_to(operand.index, statement.guard == kNoIndex ? Flow::kJump : Flow::kBranch);
}

void Builder::fills_later() {
  decoder_.fills_later();
}
void Builder::filled_here(bool all) {
  decoder_.filled_here(all);
}

void Builder::set_rounding() {
  inst.mode = kNearest;
  if (has("rz") || has("rzi")) inst.mode = kTowardZero;
  if (has("rm") || has("rmi")) inst.mode = kDown;
  if (has("rp") || has("rpi")) inst.mode = kUp;
  if (has("ftz")) inst.mode |= kFtz;
}

void Builder::lanewise(char letter, Handler body) {
  inst.body = body;
  const Support& support = instruction_table().support;
  const unsigned index = width_index(letter);
  const bool guarded = statement.guard != kNoIndex;
  inst.fn[0] = guarded ? support.guarded_merged[index] : body;
  inst.fn[1] = guarded ? support.guarded_merged[index] : support.merged[index];
}

void Builder::build_alu(Builder& b) {
  const Row* row = b.form.row;
  for (const Row* other : b.form.others) {
    if (row->signature.size() != b.count() && other->signature.size() == b.count()) row = other;
  }
  const std::string& signature = row->signature;
  const auto operands = static_cast<unsigned>(signature.size());
  b.expect_count(operands, operands);
  const char width = storage(signature[0]);
  if (width == 'p') b.inst.target = 2;
  b.inst.imm = row->argument;
  unsigned field = static_cast<unsigned>(Field::kA);
  for (unsigned i = 1; i < operands; ++i) {
    if (signature[i] == 'i') {
      b.inst.imm = b.integer(b.operand(i));
    } else {
      b.use(static_cast<Field>(field++), b.operand(i), signature[i]);
    }
  }
  const Operand& destination = b.operand(0);
  if (width == 'p' && destination.kind == OperandKind::kPair) {
    b.def(Field::kD, b.children(destination)[0], 'p');
    b.def(Field::kTarget, b.children(destination)[1], 'p');
  } else {
    b.def(Field::kD, destination, width);
  }
  b.set_rounding();
  b.lanewise(width, row->handler);
}

}  // namespace sglab::emu
