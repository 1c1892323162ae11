#include "machine/program/builder.hpp"

#include <bit>

#include "isa/aperture.hpp"
#include "machine/front/error.hpp"
#include "machine/front/special.hpp"
#include "machine/program/decoder.hpp"
#include "machine/program/storage.hpp"

namespace sglab::emu {
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

std::int64_t Builder::integer(const Operand& operand) const {
  if (operand.kind != OperandKind::kInteger) refuse("expected an integer constant");
  return operand.value;
}

std::int64_t Builder::integer(const Operand& operand, std::int64_t least, std::int64_t most,
                              const char* what) const {
  const std::int64_t value = integer(operand);
  if (value < least || value > most) {
    refuse(std::string(what) + " must be " + std::to_string(least) + " to " + std::to_string(most) +
           ", not " + std::to_string(value));
  }
  return value;
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

namespace {

// Rows of Table::alu are built from their signature.
void build_alu(Builder& b) {
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

}  // namespace

void Builder::build() {
  if (form.row->build != nullptr) {
    form.row->build(*this);
  } else {
    build_alu(*this);
  }
}

}  // namespace sglab::emu
