#include <limits>

#include "isa/extra.hpp"
#include "machine/ops/boolean.hpp"
#include "machine/ops/lanes.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"

namespace sglab::emu::SGLAB_ISA {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

template <class T>
constexpr int kBits = 8 * sizeof(T);

// Shift amounts are clamped to the width.
template <class T>
constexpr T shift_left(T a, u32 n) {
  return n < kBits<T> ? static_cast<T>(a << (n & (kBits<T> - 1))) : T{0};
}
template <class T>
constexpr T shift_right(T a, u32 n) {
  const u32 most = kBits<T> - 1;
  if constexpr (static_cast<T>(-1) < 0)
    return static_cast<T>(a >> (n < most ? n : most));
  else
    return n <= most ? static_cast<T>(a >> (n & most)) : T{0};
}

constexpr Effects kLogic = does::computes(Cost::kLogic, TaintRule::kParts);
constexpr Effects kLookUp = does::computes(Cost::kLogic, TaintRule::kLogic);
constexpr Effects kPredicate = does::computes(Cost::kFree, TaintRule::kParts);
constexpr Effects kPermute = does::computes(Cost::kAlu, TaintRule::kPermute);
constexpr Effects kCounts = does::computes(Cost::kCountBits);

template <class T>
void logic_rows(Table& t) {
  t.alu("and.$", "nnn", kLogic.tainting(TaintRule::kLogic).yielding(Value::kAnd),
        binary<[](T a, T b) { return static_cast<T>(a & b); }, T, T>);
  t.alu("or.$", "nnn", kLogic.tainting(TaintRule::kLogic).yielding(Value::kOr),
        binary<[](T a, T b) { return static_cast<T>(a | b); }, T, T>);
  t.alu("xor.$", "nnn", kLogic, binary<[](T a, T b) { return static_cast<T>(a ^ b); }, T, T>);
  t.alu("not.$", "nn", kLogic.yielding(Value::kComplement),
        unary<[](T a) { return static_cast<T>(~a); }, T, T>);
  t.alu("cnot.$", "nn", unary<[](T a) { return static_cast<T>(a == 0); }, T, T>);
  t.alu("shl.$", "nnw", kLogic.tainting(TaintRule::kShiftLeft),
        binary<[](T a, u32 n) { return shift_left<T>(a, n); }, T, T, u32>);
}

template <class T>
void shift_right_rows(Table& t) {
  t.alu("shr.$", "nnw", kLogic.tainting(TaintRule::kShiftRight),
        binary<[](T a, u32 n) { return shift_right<T>(a, n); }, T, T, u32>);
}

template <int Op>
const Inst* predicate_logic(Warp& w, const Inst* i) {
  const u32 a = predicate(w, i->a), b = Op < 3 ? predicate(w, i->b) : 0;
  w.predicates[i->d] = Op == 0 ? (a & b) : Op == 1 ? (a | b) : Op == 2 ? (a ^ b) : ~a;
  return i + 1;
}

// Inst::imm, bit k: the result where a, b, c are bits 2, 1, 0 of k.
inline void look_up(const Warp& w, const Inst* i, u32* d) {
  const u32 *const a = in<u32>(w, i->a), *const b = in<u32>(w, i->b), *const c = in<u32>(w, i->c);
  u32 m[8];
  for (int k = 0; k < 8; ++k) m[k] = 0u - static_cast<u32>(i->imm >> k & 1);
  const auto mux = [](u32 s, u32 one, u32 zero) { return zero ^ (s & (one ^ zero)); };
  each(d, [=](int l) {
    const u32 high = mux(b[l], mux(c[l], m[7], m[6]), mux(c[l], m[5], m[4]));
    const u32 low = mux(b[l], mux(c[l], m[3], m[2]), mux(c[l], m[1], m[0]));
    return mux(a[l], high, low);
  });
}

const Inst* lop3(Warp& w, const Inst* i) {
  look_up(w, i, out<u32>(w, i->d));
  return i + 1;
}

// d|p = F(a, b, c), and p = (d != 0) BoolOp q, for the lanes that run. Extra::refs: q.
template <bool And>
const Inst* lop3_predicate(Warp& w, const Inst* i) {
  alignas(64) u32 result[kLanes];
  look_up(w, i, result);
  const u32 q = predicate(w, *i->extra->refs.data()), mask = w.mask;
  const u32 some = mask_of([&](int l) { return result[l] != 0; });
  u32* const d = out<u32>(w, i->d);
  each(d, [=, &result](int l) { return bit(mask, l) ? result[l] : d[l]; });
  u32& p = w.predicates[i->target];
  p = (p & ~mask) | ((And ? some & q : some | q) & mask);
  return i + 1;
}

// lop3.BoolOp.b32 d|p, a, b, c, immLut, {!}q
void build_lop3_predicate(Builder& b) {
  b.expect_count(6, 6);
  const Operand& to = b.operand(0);
  if (to.kind != OperandKind::kPair) b.refuse("expected d|p");
  b.use(Field::kA, b.operand(1), 'w');
  b.use(Field::kB, b.operand(2), 'w');
  b.use(Field::kC, b.operand(3), 'w');
  b.inst.imm = (b.integer(b.operand(4)) & 0xff) | (b.has("or") ? kTableOr : 0);
  b.use_extra(b.operand(5), 'p');
  if (b.children(to)[1].kind == OperandKind::kSink) b.refuse("expected a predicate after |");
  b.def(Field::kD, b.children(to)[0], 'w');
  b.def(Field::kTarget, b.children(to)[1], 'p');
  b.inst.body = b.form.row->handler;
}

// The 32-bit bfe and bfi look at eight bits of position and length. The 64-bit ones are code that looks at
// all of them; the smaller number here leaves room for a sum.
template <class T>
constexpr u32 field_operand(u32 v) {
  if constexpr (sizeof(T) == 4) return v & 0xff;
  return v < 0xff ? v : 0xff;
}

template <class T, class U>
constexpr T bit_field(T a, u32 position, u32 length) {
  position = field_operand<T>(position);
  length = field_operand<T>(length);
  constexpr u32 most = kBits<T> - 1;
  if (length == 0) return 0;
  constexpr bool is_signed = static_cast<T>(-1) < 0;
  const u32 last = position + length - 1 < most ? position + length - 1 : most;
  const bool sign = is_signed && (static_cast<U>(a) >> last & 1);
  U field = position <= most ? static_cast<U>(a) >> position : 0;
  if (length <= most) {
    const U mask = (U{1} << length) - 1;
    field &= mask;
    // Bits beyond the top of `a` repeat the sign.
    if (sign) field |= position <= most ? ~(mask & (~U{0} >> position)) : ~U{0};
  } else if (sign && position > 0) {
    field |= position <= most ? ~(~U{0} >> position) : ~U{0};
  }
  return static_cast<T>(field);
}

template <class T>
const Inst* bit_insert(Warp& w, const Inst* i) {
  T* const d = out<T>(w, i->d);
  const T *const a = in<T>(w, i->a), *const b = in<T>(w, i->b);
  const u32 *const c = in<u32>(w, i->c), *const n = in<u32>(w, i->target);
  each(d, [=](int l) {
    const u32 position = field_operand<T>(c[l]), length = field_operand<T>(n[l]);
    const T ones = length >= kBits<T> ? ~T{0} : (T{1} << (length & (kBits<T> - 1))) - 1;
    const T mask = shift_left<T>(ones, position);
    return (b[l] & ~mask) | (shift_left<T>(a[l], position) & mask);
  });
  return i + 1;
}

constexpr u32 permute(u32 a, u32 b, u32 selector) {
  const u64 bytes = u64{b} << 32 | a;
  u32 result = 0;
  for (int k = 0; k < 4; ++k) {
    const u32 s = selector >> 4 * k & 0xf;
    u32 byte = static_cast<u32>(bytes >> 8 * (s & 7)) & 0xff;
    if (s & 8) byte = (byte & 0x80) ? 0xff : 0;
    result |= byte << 8 * k;
  }
  return result;
}

// The special modes pick four bytes by a 2-bit selector.
enum PermuteMode { kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };
template <int Mode>
constexpr u32 permute_mode(u32 a, u32 b, u32 c) {
  constexpr u16 kSelectors[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                    {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                    {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return permute(a, b, kSelectors[Mode][c & 3]);
}

constexpr u32 reverse32(u32 v) {
  v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
  v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
  v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(v);
}
constexpr u64 reverse64(u64 v) {
  return u64{reverse32(static_cast<u32>(v))} << 32 | reverse32(static_cast<u32>(v >> 32));
}

constexpr u32 leading(u64 v, int bits) {
  return v == 0 ? bits : __builtin_clzll(v) - (64 - bits);
}

// Position of the most significant bit that is not a copy of the sign; all ones if there is none.
template <class T, bool ShiftAmount>
constexpr u32 find_bit(T a) {
  using U = std::conditional_t<sizeof(T) == 8, u64, u32>;
  const U v = static_cast<U>(a < 0 ? static_cast<T>(~a) : a);
  if (v == 0) return 0xffffffffu;
  const u32 position = kBits<T> - 1 - leading(v, kBits<T>);
  return ShiftAmount ? kBits<T> - 1 - position : position;
}

template <class T>
void find_rows(Table& t) {
  t.alu("bfind.$", "wn", kCounts, unary<[](T a) { return find_bit<T, false>(a); }, u32, T>);
  t.alu("bfind.shiftamt.$", "wn", kCounts, unary<[](T a) { return find_bit<T, true>(a); }, u32, T>);
}

// The n-th set bit from a base position, upwards for n > 0, downwards for n < 0.
constexpr u32 nth_set(u32 mask, u32 base, s32 offset) {
  if (base > 31) return 0xffffffffu;
  if (offset == std::numeric_limits<s32>::min()) return 0;  // an H200's answer; its magnitude does not fit
  if (offset == 0) return mask >> base & 1 ? base : 0xffffffffu;
  const s32 step = offset > 0 ? 1 : -1;
  s32 left = offset > 0 ? offset : -offset;
  for (s32 at = static_cast<s32>(base); at >= 0 && at < 32; at += step) {
    if ((mask >> at & 1) && --left == 0) return static_cast<u32>(at);
  }
  return 0xffffffffu;
}

constexpr u32 funnel_left(u32 a, u32 b, u32 n) {
  return static_cast<u32>((u64{b} << 32 | a) << n >> 32);
}
constexpr u32 funnel_right(u32 a, u32 b, u32 n) {
  return static_cast<u32>((u64{b} << 32 | a) >> n);
}
constexpr s32 sign_extend(u32 a, u32 bits) {
  return bits == 0 ? 0 : bits > 31 ? static_cast<s32>(a) : static_cast<s32>(a << (32 - bits)) >> (32 - bits);
}

}  // namespace

void register_bits(Table& t) {
  t.family("Logic, shifts and bit fields", InstClass::kInteger);
  t.effects(does::computes(Cost::kAlu));
  t.alu("and.pred", "ppp", kPredicate.tainting(TaintRule::kLogic).yielding(Value::kAnd), predicate_logic<0>);
  t.alu("or.pred", "ppp", kPredicate.tainting(TaintRule::kLogic).yielding(Value::kOr), predicate_logic<1>);
  t.alu("xor.pred", "ppp", kPredicate.costing(Cost::kAlu), predicate_logic<2>);
  t.alu("not.pred", "pp", kPredicate, predicate_logic<3>);
  t.type("b16", 'h');
  logic_rows<u16>(t);
  t.type("b32", 'w');
  logic_rows<u32>(t);
  t.type("b64", 'l');
  logic_rows<u64>(t);
  t.type("{b16|u16}", 'h');
  shift_right_rows<u16>(t);
  t.type("s16", 'h');
  shift_right_rows<std::int16_t>(t);
  t.type("{b32|u32}", 'w');
  shift_right_rows<u32>(t);
  t.type("s32", 'w');
  shift_right_rows<s32>(t);
  t.type("{b64|u64}", 'l');
  shift_right_rows<u64>(t);
  t.type("s64", 'l');
  shift_right_rows<s64>(t);
  t.alu("lop3.b32", "wwwwi", kLookUp, lop3);
  t.row("lop3.and.b32", kLookUp, build_lop3_predicate, lop3_predicate<true>);
  t.row("lop3.or.b32", kLookUp, build_lop3_predicate, lop3_predicate<false>);
  t.alu("shf.l.wrap.b32", "wwww",
        ternary<[](u32 a, u32 b, u32 c) { return funnel_left(a, b, c & 31); }, u32, u32>);
  t.alu("shf.r.wrap.b32", "wwww",
        ternary<[](u32 a, u32 b, u32 c) { return funnel_right(a, b, c & 31); }, u32, u32>);
  t.alu("shf.l.clamp.b32", "wwww",
        ternary<[](u32 a, u32 b, u32 c) { return 31 < c ? a : funnel_left(a, b, c & 31); }, u32, u32>);
  t.alu("shf.r.clamp.b32", "wwww",
        ternary<[](u32 a, u32 b, u32 c) { return funnel_right(a, b, c < 32 ? c : 32); }, u32, u32>);
  t.alu("bfe.u32", "wwww",
        ternary<[](u32 a, u32 b, u32 c) { return bit_field<u32, u32>(a, b, c); }, u32, u32>);
  t.alu("bfe.s32", "wwww",
        ternary<[](s32 a, u32 b, u32 c) { return bit_field<s32, u32>(a, b, c); }, s32, s32, u32, u32>);
  t.alu("bfe.u64", "llww",
        ternary<[](u64 a, u32 b, u32 c) { return bit_field<u64, u64>(a, b, c); }, u64, u64, u32, u32>);
  t.alu("bfe.s64", "llww",
        ternary<[](s64 a, u32 b, u32 c) { return bit_field<s64, u64>(a, b, c); }, s64, s64, u32, u32>);
  t.alu("bfi.b32", "wwwww", bit_insert<u32>);
  t.alu("bfi.b64", "lllww", bit_insert<u64>);
  t.alu("prmt.b32", "wwww", kPermute,
        ternary<[](u32 a, u32 b, u32 c) { return permute(a, b, c); }, u32, u32>);
  t.alu("prmt.b32.f4e", "wwww", kPermute,
        ternary<[](u32 a, u32 b, u32 c) { return permute_mode<kF4e>(a, b, c); }, u32, u32>);
  t.alu("prmt.b32.b4e", "wwww", kPermute,
        ternary<[](u32 a, u32 b, u32 c) { return permute_mode<kB4e>(a, b, c); }, u32, u32>);
  t.alu("prmt.b32.rc8", "wwww", kPermute,
        ternary<[](u32 a, u32 b, u32 c) { return permute_mode<kRc8>(a, b, c); }, u32, u32>);
  t.alu("prmt.b32.ecl", "wwww", kPermute,
        ternary<[](u32 a, u32 b, u32 c) { return permute_mode<kEcl>(a, b, c); }, u32, u32>);
  t.alu("prmt.b32.ecr", "wwww", kPermute,
        ternary<[](u32 a, u32 b, u32 c) { return permute_mode<kEcr>(a, b, c); }, u32, u32>);
  t.alu("prmt.b32.rc16", "wwww", kPermute,
        ternary<[](u32 a, u32 b, u32 c) { return permute_mode<kRc16>(a, b, c); }, u32, u32>);
  t.alu("brev.b32", "ww", kCounts, unary<[](u32 a) { return reverse32(a); }, u32, u32>);
  t.alu("brev.b64", "ll", kCounts, unary<[](u64 a) { return reverse64(a); }, u64, u64>);
  t.alu("popc.b32", "ww", kCounts,
        unary<[](u32 a) { return static_cast<u32>(__builtin_popcount(a)); }, u32, u32>);
  t.alu("popc.b64", "wl", kCounts,
        unary<[](u64 a) { return static_cast<u32>(__builtin_popcountll(a)); }, u32, u64>);
  t.alu("clz.b32", "ww", kCounts, unary<[](u32 a) { return leading(a, 32); }, u32, u32>);
  t.alu("clz.b64", "wl", kCounts, unary<[](u64 a) { return leading(a, 64); }, u32, u64>);
  t.type("u32", 'w');
  find_rows<u32>(t);
  t.type("s32", 'w');
  find_rows<s32>(t);
  t.type("u64", 'l');
  find_rows<u64>(t);
  t.type("s64", 'l');
  find_rows<s64>(t);
  t.alu("fns.b32", "wwww", ternary<[](u32 a, u32 b, s32 c) { return nth_set(a, b, c); }, u32, u32, u32, s32>);
  t.alu("bmsk.clamp.b32", "www",
        binary<[](u32 a, u32 b) { return 31 < a ? 0u : (31 < b ? 0xffffffffu : (1u << b) - 1) << a; }, u32,
               u32>);
  t.alu("bmsk.wrap.b32", "www",
        binary<[](u32 a, u32 b) { return ((1u << (b & 31)) - 1) << (a & 31); }, u32, u32>);
  t.alu("szext.clamp.u32", "www",
        binary<[](u32 a, u32 b) { return 31 < b ? a : a & ((1u << b) - 1); }, u32, u32>);
  t.alu("szext.wrap.u32", "www", binary<[](u32 a, u32 b) { return a & ((1u << (b & 31)) - 1); }, u32, u32>);
  t.alu("szext.clamp.s32", "www", binary<[](u32 a, u32 b) { return sign_extend(a, b); }, s32, u32>);
  t.alu("szext.wrap.s32", "www", binary<[](u32 a, u32 b) { return sign_extend(a, b & 31); }, s32, u32>);
}

}  // namespace sglab::emu::SGLAB_ISA
