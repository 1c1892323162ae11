#include "isa/extra.hpp"
#include "machine/front/special.hpp"
#include "machine/ops/lanes.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/decoder.hpp"

// mov: copies, and packs or unpacks vectors of equal parts.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
struct alignas(16) u128 {
  u64 low, high;
};

template <class T>
const Inst* copy(Warp& w, const Inst* i) {
  const T* const a = in<T>(w, i->a);
  each(out<T>(w, i->d), [=](int l) { return a[l]; });
  return i + 1;
}

const Inst* copy_predicate(Warp& w, const Inst* i) {
  w.predicates[i->d] = predicate(w, i->a);
  return i + 1;
}

// Parts of type P make up a whole of type W.
template <class P, class W>
const Inst* pack(Warp& w, const Inst* i) {
  constexpr int kParts = sizeof(W) / sizeof(P);
  alignas(64) W whole[kLanes];
  P* const parts = reinterpret_cast<P*>(whole);
  for (int k = 0; k < kParts; ++k) {
    const P* const a = in<P>(w, i->extra->refs[k]);
    SGLAB_LANEWISE
    for (int l = 0; l < kLanes; ++l) parts[l * kParts + k] = a[l];
  }
  std::memcpy(out<W>(w, i->d), whole, sizeof whole);
  return i + 1;
}

template <class P, class W>
const Inst* unpack(Warp& w, const Inst* i) {
  constexpr int kParts = sizeof(W) / sizeof(P);
  alignas(64) P parts[kLanes * kParts];
  std::memcpy(parts, in<W>(w, i->a), sizeof parts);
  const u32 lanes = w.mask;
  for (int k = 0; k < kParts; ++k) {
    P* const d = out<P>(w, i->extra->refs[k]);
    if (lanes == w.live) {
      SGLAB_LANEWISE
      for (int l = 0; l < kLanes; ++l) d[l] = parts[l * kParts + k];
    } else {
      for (int l = 0; l < kLanes; ++l) d[l] = bit(lanes, l) ? parts[l * kParts + k] : d[l];
    }
  }
  return i + 1;
}

struct Shape {
  char whole;
  unsigned parts;
  Handler pack, unpack;
};
constexpr Shape kShapes[] = {
    {'h', 2, pack<u8, u16>, unpack<u8, u16>},     {'w', 2, pack<u16, u32>, unpack<u16, u32>},
    {'w', 4, pack<u8, u32>, unpack<u8, u32>},     {'l', 2, pack<u32, u64>, unpack<u32, u64>},
    {'l', 4, pack<u16, u64>, unpack<u16, u64>},   {'x', 2, pack<u64, u128>, unpack<u64, u128>},
    {'x', 4, pack<u32, u128>, unpack<u32, u128>},
};

const Shape& shape(const Builder& b, char whole, unsigned parts) {
  for (const Shape& s : kShapes) {
    if (s.whole == whole && s.parts == parts) return s;
  }
  b.refuse("this vector does not fill the type");
}

char part_letter(char whole, unsigned parts) {
  switch (letter_bytes(whole) / parts) {
    case 1:
      return 'b';
    case 2:
      return 'h';
    case 4:
      return 'w';
    default:
      return 'l';
  }
}

void build_mov(Builder& b) {
  b.expect_count(2, 2);
  const char letter = letter_of(b.type());
  const Operand &to = b.operand(0), &from = b.operand(1);
  if (from.kind == OperandKind::kVector) {
    const Shape& s = shape(b, letter, from.count);
    b.use_vector(from, part_letter(letter, s.parts));
    b.def(Field::kD, to, letter);
    return b.lanewise(letter, s.pack);
  }
  if (to.kind == OperandKind::kVector) {
    const Shape& s = shape(b, letter, to.count);
    b.use(Field::kA, from, letter);
    b.def_vector(to, part_letter(letter, s.parts));
    b.inst.body = s.unpack;
    return;
  }
  if (from.kind == OperandKind::kSpecial && letter != 'p') {
    b.def(Field::kD, to, letter);
    b.inst.imm = from.index;
    b.effects.cost = Cost::kSpecialRegister;
    if (is_clock(static_cast<Special>(from.index))) b.effects.motion = Motion::kFixed;
    return b.lanewise(letter, b.special_reader(letter));
  }
  b.use(Field::kA, from, b.type() == Type::kF32 ? 'f' : b.type() == Type::kF64 ? 'd' : letter);
  b.def(Field::kD, to, letter);
  if (letter == 'p') b.inst.target = 2;
  b.lanewise(letter, letter == 'p'   ? copy_predicate
                     : letter == 'h' ? copy<u16>
                     : letter == 'w' ? copy<u32>
                     : letter == 'l' ? copy<u64>
                                     : copy<u128>);
}

}  // namespace

void register_move(Table& t) {
  t.family("Data movement between registers", InstClass::kMove);
  t.row("mov.{b16|b32|b64|b128|u16|u32|u64|s16|s32|s64|f16|f16x2|f32|f64|pred}",
        does::computes(Cost::kFree, TaintRule::kPack).yielding(Value::kCopy), build_mov);
}

}  // namespace sglab::emu::SGLAB_ISA
