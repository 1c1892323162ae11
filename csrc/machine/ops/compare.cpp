#include "machine/ops/boolean.hpp"
#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"

// setp and set.
namespace sglab::emu::SGLAB_ISA {
namespace {

constexpr Effects kCompares = does::computes(Cost::kAlu);

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

enum class Compare { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan, kCount };
constexpr const char* kNames[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                  "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <class T>
struct Plain {
  using Store = T;
  using Value = T;
  static T load(T v) { return v; }
};
struct F32 {
  using Store = float;
  using Value = float;
  static float load(float v) { return v; }
};
struct F16 {
  using Store = u16;
  using Value = float;
  static float load(u16 v) { return f32_from_f16(v); }
};
// With .ftz.
struct FlushedF16 {
  using Store = u16;
  using Value = float;
  static float load(u16 v) { return f32_from_f16((v & 0x7c00) == 0 ? static_cast<u16>(v & 0x8000) : v); }
};
struct Bf16 {
  using Store = u16;
  using Value = float;
  static float load(u16 v) { return f32_from_bf16(v); }
};

template <Compare C, class V>
inline bool holds(V a, V b) {
  switch (C) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return (a < b) | (a > b);
    case Compare::kLt:
      return a < b;
    case Compare::kLe:
      return a <= b;
    case Compare::kGt:
      return a > b;
    case Compare::kGe:
      return a >= b;
    case Compare::kEqu:
      return !((a < b) | (a > b));
    case Compare::kNeu:
      return !(a == b);
    case Compare::kLtu:
      return !(a >= b);
    case Compare::kLeu:
      return !(a > b);
    case Compare::kGtu:
      return !(a <= b);
    case Compare::kGeu:
      return !(a < b);
    case Compare::kNum:
      return (a == a) & (b == b);
    default:
      return (a != a) | (b != b);
  }
}

// Two f32 operands; with .ftz, flushed into `room`.
void read_operands(const Warp& w, const Inst* i, float (&room)[2][kLanes], const float* (&operands)[2]) {
  operands[0] = in<float>(w, i->a), operands[1] = in<float>(w, i->b);
  if ((i->mode & kFtz) == 0) return;
  for (int side = 0; side < 2; ++side) {
    const float* const from = operands[side];
    each(room[side], [=](int l) { return flush(from[l]); });
    operands[side] = room[side];
  }
}

template <class K, Compare C>
inline u32 compare(Warp& w, const Inst* i) {
  using S = typename K::Store;
  if constexpr (__is_same(S, float)) {
    alignas(64) float room[2][kLanes];
    const float* operands[2];
    read_operands(w, i, room, operands);
    const float *const a = operands[0], *const b = operands[1];
    return mask_of([=](int l) { return holds<C>(a[l], b[l]); });
  }
  const S *const a = in<S>(w, i->a), *const b = in<S>(w, i->b);
  return mask_of([=](int l) { return holds<C>(K::load(a[l]), K::load(b[l])); });
}

// Inst::imm: Boolean, and this.
constexpr std::int64_t kHalfResult = 4;

inline u32 combine(const Warp& w, const Inst* i, u32 result) {
  const std::int64_t op = i->imm & kBooleanMask;
  if (op == kNoBoolean) return result;
  const u32 c = predicate(w, i->c);
  return op == kBooleanAnd ? result & c : op == kBooleanOr ? result | c : result ^ c;
}

template <class K, Compare C>
const Inst* setp(Warp& w, const Inst* i) {
  const u32 result = compare<K, C>(w, i);
  const u32 both = combine(w, i, result), other = combine(w, i, ~result);
  w.predicates[i->d] = both;
  w.predicates[i->target] = other;
  return i + 1;
}

template <class K, Compare C>
const Inst* set(Warp& w, const Inst* i) {
  const u32 result = combine(w, i, compare<K, C>(w, i));
  const u32 one = i->target;  // 1.0 or all ones
  if ((i->imm & kHalfResult) != 0) {
    each(out<u16>(w, i->d), [=](int l) { return static_cast<u16>(bit(result, l) ? one : 0u); });
    return i + 1;
  }
  each(out<u32>(w, i->d), [=](int l) { return bit(result, l) ? one : 0u; });
  return i + 1;
}

Boolean boolean(const Builder& b) {
  return b.has("and") ? kBooleanAnd : b.has("or") ? kBooleanOr : b.has("xor") ? kBooleanXor : kNoBoolean;
}

void build_setp(Builder& b) {
  const Operand& destination = b.operand(0);
  b.inst.imm = boolean(b);
  b.expect_count(b.inst.imm != 0 ? 4 : 3, b.inst.imm != 0 ? 4 : 3);
  const char letter = letter_of(b.type());
  const bool real = is_float(b.type());
  const char source = real && letter == 'w' ? 'f' : real && letter == 'l' ? 'd' : letter;
  b.use(Field::kA, b.operand(1), source);
  b.use(Field::kB, b.operand(2), source);
  if (b.inst.imm != 0) b.use(Field::kC, b.operand(3), 'p');
  b.set_rounding();
  b.inst.target = 2;
  if (destination.kind == OperandKind::kPair) {
    if (b.type() == Type::kF16 || b.type() == Type::kBf16)
      b.refuse("a single half has no second predicate; negate the first one");
    b.def(Field::kD, b.children(destination)[0], 'p');
    b.def(Field::kTarget, b.children(destination)[1], 'p');
  } else {
    b.def(Field::kD, destination, 'p');
  }
  b.lanewise('p', b.form.row->handler);
}

// What set gives where the comparison holds.
u32 one_of(Type type) {
  switch (type) {
    case Type::kF32:
      return 0x3f800000u;
    case Type::kF16:
      return 0x3c00u;
    case Type::kBf16:
      return 0x3f80u;
    default:
      return 0xffffffffu;
  }
}

// set.CmpOp.dtype.stype d, a, b
void build_set(Builder& b) {
  b.inst.imm = boolean(b);
  b.expect_count(b.inst.imm != 0 ? 4 : 3, b.inst.imm != 0 ? 4 : 3);
  const Type source = b.type(1);
  const char letter = letter_of(source);
  const char wanted = is_float(source) && letter == 'w'   ? 'f'
                      : is_float(source) && letter == 'l' ? 'd'
                                                          : letter;
  b.use(Field::kA, b.operand(1), wanted);
  b.use(Field::kB, b.operand(2), wanted);
  if (b.inst.imm != 0) b.use(Field::kC, b.operand(3), 'p');
  const Type result = b.type(0);
  const char to = letter_of(result);
  b.def(Field::kD, b.operand(0), to);
  b.set_rounding();
  b.inst.target = one_of(result);
  if (to == 'h') b.inst.imm |= kHalfResult;
  b.lanewise(to, b.form.row->handler);
}

// set.CmpOp.f16x2.f16x2: both halves.
void build_set_pair(Builder& b) {
  b.inst.imm = boolean(b);
  b.expect_count(b.inst.imm != 0 ? 4 : 3, b.inst.imm != 0 ? 4 : 3);
  b.use(Field::kA, b.operand(1), 'w');
  b.use(Field::kB, b.operand(2), 'w');
  if (b.inst.imm != 0) b.use(Field::kC, b.operand(3), 'p');
  b.def(Field::kD, b.operand(0), 'w');
  b.inst.target = one_of(b.type(1) == Type::kF16x2 ? Type::kF16 : Type::kBf16);
  b.lanewise('w', b.form.row->handler);
}

// Patterns are put together here, so that each comparison is one row.
struct Pattern {
  char text[96];
  Pattern(const char* head, const char* compare, const char* tail) {
    text[0] = 0;
    __builtin_strcat(text, head);
    __builtin_strcat(text, compare);
    __builtin_strcat(text, tail);
  }
};

template <class K, Compare C>
void row(Table& t, const char* type) {
  const char* const name = kNames[static_cast<int>(C)];
  constexpr bool flushes = __is_same(typename K::Store, float), flushed = __is_same(K, FlushedF16);
  t.type(type, ' ');
  t.row(Pattern("setp.", name,
                flushes   ? "[.and|.or|.xor][.ftz].$"
                : flushed ? "[.and|.or|.xor].ftz.$"
                          : "[.and|.or|.xor].$")
            .text,
        kCompares, build_setp, setp<K, C>);
  const char* const results = flushes              ? "[.and|.or|.xor][.ftz].{u32|s32|f32|f16|bf16}.$"
                              : flushed            ? "[.and|.or|.xor].ftz.{u16|s16|u32|s32|f16}.$"
                              : __is_same(K, F16)  ? "[.and|.or|.xor].{u16|s16|u32|s32|f16|bf16}.$"
                              : __is_same(K, Bf16) ? "[.and|.or|.xor].{u16|s16|u32|s32|bf16}.$"
                                                   : "[.and|.or|.xor].{u32|s32|f32|f16|bf16}.$";
  t.row(Pattern("set.", name, results).text, kCompares, build_set, set<K, C>);
}

template <class K>
void ordered_rows(Table& t, const char* type) {
  row<K, Compare::kEq>(t, type);
  row<K, Compare::kNe>(t, type);
  row<K, Compare::kLt>(t, type);
  row<K, Compare::kLe>(t, type);
  row<K, Compare::kGt>(t, type);
  row<K, Compare::kGe>(t, type);
}

template <class K>
void float_rows(Table& t, const char* type) {
  ordered_rows<K>(t, type);
  row<K, Compare::kEqu>(t, type);
  row<K, Compare::kNeu>(t, type);
  row<K, Compare::kLtu>(t, type);
  row<K, Compare::kLeu>(t, type);
  row<K, Compare::kGtu>(t, type);
  row<K, Compare::kGeu>(t, type);
  row<K, Compare::kNum>(t, type);
  row<K, Compare::kNan>(t, type);
}

// Unsigned comparisons have names of their own as well.
template <class T>
void unsigned_rows(Table& t, const char* type) {
  ordered_rows<Plain<T>>(t, type);
  t.type(type, ' ');
  t.row("setp.lo[.and|.or|.xor].$", kCompares, build_setp, setp<Plain<T>, Compare::kLt>);
  t.row("setp.ls[.and|.or|.xor].$", kCompares, build_setp, setp<Plain<T>, Compare::kLe>);
  t.row("setp.hi[.and|.or|.xor].$", kCompares, build_setp, setp<Plain<T>, Compare::kGt>);
  t.row("setp.hs[.and|.or|.xor].$", kCompares, build_setp, setp<Plain<T>, Compare::kGe>);
}

// setp on pairs: p compares the low halves, q the high ones.
template <class H, Compare C>
const Inst* setp_pair(Warp& w, const Inst* i) {
  const u16 *const a = in<u16>(w, i->a), *const b = in<u16>(w, i->b);
  const u32 low = mask_of([=](int l) { return holds<C>(H::load(a[2 * l]), H::load(b[2 * l])); });
  const u32 high = mask_of([=](int l) { return holds<C>(H::load(a[2 * l + 1]), H::load(b[2 * l + 1])); });
  const u32 p = combine(w, i, low), q = combine(w, i, high);
  w.predicates[i->d] = p;
  w.predicates[i->target] = q;
  return i + 1;
}

template <class H, Compare C>
const Inst* set_pair(Warp& w, const Inst* i) {
  const u16 *const a = in<u16>(w, i->a), *const b = in<u16>(w, i->b);
  const u32 low = mask_of([=](int l) { return holds<C>(H::load(a[2 * l]), H::load(b[2 * l])); });
  const u32 high = mask_of([=](int l) { return holds<C>(H::load(a[2 * l + 1]), H::load(b[2 * l + 1])); });
  const u32 p = combine(w, i, low), q = combine(w, i, high), one = i->target;
  each(out<u32>(w, i->d), [=](int l) { return (bit(p, l) ? one : 0u) | (bit(q, l) ? one << 16 : 0u); });
  return i + 1;
}

template <class H, Compare C>
void pair_row(Table& t, const char* type) {
  t.type(type, ' ');
  const char* const name = kNames[static_cast<int>(C)];
  constexpr bool flushed = __is_same(H, FlushedF16);
  t.row(Pattern("setp.", name, flushed ? "[.and|.or|.xor].ftz.$" : "[.and|.or|.xor].$").text, kCompares,
        build_setp, setp_pair<H, C>);
  t.row(Pattern("set.", name, flushed ? "[.and|.or|.xor].ftz.$.$" : "[.and|.or|.xor].$.$").text, kCompares,
        build_set_pair, set_pair<H, C>);
}

template <class H>
void pair_rows(Table& t, const char* type) {
  pair_row<H, Compare::kEq>(t, type);
  pair_row<H, Compare::kNe>(t, type);
  pair_row<H, Compare::kLt>(t, type);
  pair_row<H, Compare::kLe>(t, type);
  pair_row<H, Compare::kGt>(t, type);
  pair_row<H, Compare::kGe>(t, type);
  pair_row<H, Compare::kEqu>(t, type);
  pair_row<H, Compare::kNeu>(t, type);
  pair_row<H, Compare::kLtu>(t, type);
  pair_row<H, Compare::kLeu>(t, type);
  pair_row<H, Compare::kGtu>(t, type);
  pair_row<H, Compare::kGeu>(t, type);
  pair_row<H, Compare::kNum>(t, type);
  pair_row<H, Compare::kNan>(t, type);
}

}  // namespace

void register_compare(Table& t) {
  t.family("Comparison and selection", InstClass::kCompare);
  t.effects(does::computes(Cost::kAlu));
  ordered_rows<Plain<s16>>(t, "s16");
  ordered_rows<Plain<s32>>(t, "s32");
  ordered_rows<Plain<s64>>(t, "s64");
  unsigned_rows<u16>(t, "u16");
  unsigned_rows<u32>(t, "u32");
  unsigned_rows<u64>(t, "u64");
  row<Plain<u16>, Compare::kEq>(t, "b16");
  row<Plain<u16>, Compare::kNe>(t, "b16");
  row<Plain<u32>, Compare::kEq>(t, "b32");
  row<Plain<u32>, Compare::kNe>(t, "b32");
  row<Plain<u64>, Compare::kEq>(t, "b64");
  row<Plain<u64>, Compare::kNe>(t, "b64");
  float_rows<F32>(t, "f32");
  float_rows<Plain<double>>(t, "f64");
  float_rows<F16>(t, "f16");
  float_rows<FlushedF16>(t, "f16");
  float_rows<Bf16>(t, "bf16");
  pair_rows<F16>(t, "f16x2");
  pair_rows<FlushedF16>(t, "f16x2");
  pair_rows<Bf16>(t, "bf16x2");
  register_selection(t);
}

}  // namespace sglab::emu::SGLAB_ISA
