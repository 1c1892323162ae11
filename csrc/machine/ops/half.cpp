#include "machine/ops/elementary.hpp"
#include "machine/ops/register.hpp"

// f16 and bf16, alone and in pairs. A pair register is 64 halves in a row, so pairs are just twice as many
// lanes.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;

struct F16 {
  static float widen(u16 h) { return f32_from_f16(h); }
  static u16 narrow(float f) { return f16_from_f32(f); }
  static u16 flush(u16 h) { return (h & 0x7c00) == 0 ? h & 0x8000 : h; }
  // What f16 would round below its smallest normal number if exponents had no lower limit becomes zero.
  static float flush_result(float f) { return __builtin_fabsf(f) < 0x1.ffep-15f ? f * 0.0f : f; }
  // The product of two f16 is exact in f32.
  static float fma(u16 a, u16 b, u16 c) { return fma_to_odd(widen(a), widen(b), widen(c)); }
  static constexpr u16 kInfinity = 0x7c00, kOne = 0x3c00;
};

struct Bf16 {
  static float widen(u16 h) { return f32_from_bf16(h); }
  static u16 narrow(float f) { return bf16_from_f32(f); }
  static float fma(u16 a, u16 b, u16 c) {
    return f32_to_odd(fma_to_odd(static_cast<double>(widen(a)), static_cast<double>(widen(b)),
                                 static_cast<double>(widen(c))));
  }
  static constexpr u16 kInfinity = 0x7f80, kOne = 0x3f80;
};

enum Flags { kFlush = 1, kSat = 2, kRelu = 4, kPropagate = 8, kXorsign = 16, kOob = 32 };

// What a tensor copy fills in for elements out of bounds, where its map asks for NaN.
constexpr u16 kOobNan = 0x7ff7;

template <class H>
inline bool is_nan(u16 h) {
  return (h & 0x7fff) > H::kInfinity;
}

// Rounds once. .sat and .relu turn NaN into +0 and canonical NaN respectively.
template <class H, int Options>
inline u16 finish(float exact) {
  if constexpr ((Options & kFlush) != 0) exact = H::flush_result(exact);
  u16 r = H::narrow(exact);
  if (Options & kSat) {
    r = (r & 0x8000) || is_nan<H>(r) ? 0 : r;
    r = r > H::kOne ? H::kOne : r;
  }
  if (Options & kRelu) r = (r & 0x8000) && !is_nan<H>(r) ? 0 : r;
  return r;
}

template <class H, int Options>
inline u16 load(u16 h) {
  if constexpr ((Options & kFlush) != 0) return H::flush(h);
  return h;
}

enum Op { kAdd, kSub, kMul };

template <class H, Op Operation, int Options, int Width>
const Inst* arithmetic(Warp& w, const Inst* i) {
  u16* const d = out<u16>(w, i->d);
  const u16 *const a = in<u16>(w, i->a), *const b = in<u16>(w, i->b);
  SGLAB_LANEWISE
  for (int l = 0; l < Width * kLanes; ++l) {
    const float x = H::widen(load<H, Options>(a[l])), y = H::widen(load<H, Options>(b[l]));
    d[l] = finish<H, Options>(Operation == kAdd ? x + y : Operation == kSub ? x - y : x * y);
  }
  return i + 1;
}

template <class H, int Options, int Width>
const Inst* fused(Warp& w, const Inst* i) {
  u16* const d = out<u16>(w, i->d);
  const u16 *const a = in<u16>(w, i->a), *const b = in<u16>(w, i->b), *const c = in<u16>(w, i->c);
  SGLAB_LANEWISE
  for (int l = 0; l < Width * kLanes; ++l) {
    const u16 r =
        finish<H, Options>(H::fma(load<H, Options>(a[l]), load<H, Options>(b[l]), load<H, Options>(c[l])));
    const bool outside = (Options & kOob) && ((a[l] & 0x7fff) == kOobNan || (b[l] & 0x7fff) == kOobNan);
    d[l] = outside ? 0 : r;
  }
  return i + 1;
}

template <class H, bool Max, int Options, int Width>
const Inst* extremes(Warp& w, const Inst* i) {
  u16* const d = out<u16>(w, i->d);
  const u16 *const a = in<u16>(w, i->a), *const b = in<u16>(w, i->b);
  SGLAB_LANEWISE
  for (int l = 0; l < Width * kLanes; ++l) {
    u16 x = load<H, Options>(a[l]), y = load<H, Options>(b[l]);
    const u16 sign = (x ^ y) & 0x8000;
    if (Options & kXorsign) x &= 0x7fff, y &= 0x7fff;
    // Ordered as integers: negative numbers reversed below zero.
    const int kx = x & 0x8000 ? 0x8000 - static_cast<int>(x) - 1 : x;
    const int ky = y & 0x8000 ? 0x8000 - static_cast<int>(y) - 1 : y;
    u16 r = (Max ? kx > ky : kx < ky) ? x : y;
    r = is_nan<H>(y) ? x : r;
    r = is_nan<H>(x) ? y : r;
    const bool bad = Options & kPropagate ? is_nan<H>(x) || is_nan<H>(y) : is_nan<H>(x) && is_nan<H>(y);
    if (Options & kXorsign) r |= sign;
    d[l] = bad ? kNan16 : r;
  }
  return i + 1;
}

template <class H, int Options, int Width, u16 And, u16 Xor>
const Inst* sign_bits(Warp& w, const Inst* i) {
  u16* const d = out<u16>(w, i->d);
  const u16* const a = in<u16>(w, i->a);
  SGLAB_LANEWISE
  for (int l = 0; l < Width * kLanes; ++l) d[l] = (load<H, Options>(a[l]) & And) ^ Xor;
  return i + 1;
}

template <class H, int Options, int Width, auto F>
const Inst* approximate(Warp& w, const Inst* i) {
  u16* const d = out<u16>(w, i->d);
  const u16* const a = in<u16>(w, i->a);
  SGLAB_LANEWISE
  for (int l = 0; l < Width * kLanes; ++l) d[l] = finish<H, Options>(F(H::widen(load<H, Options>(a[l]))));
  return i + 1;
}

constexpr Effects kSpecial = does::computes(Cost::kSpecial);
constexpr Effects kExponential = kSpecial.with(&Effects::exponential, true);

template <class H, int Width>
void common_rows(Table& t) {
  t.alu("add[.rn].$", "nnn", arithmetic<H, kAdd, 0, Width>);
  t.alu("sub[.rn].$", "nnn", arithmetic<H, kSub, 0, Width>);
  t.alu("mul[.rn].$", "nnn", arithmetic<H, kMul, 0, Width>);
  t.alu("fma.rn.$", "nnnn", fused<H, 0, Width>);
  t.alu("fma.rn.relu.$", "nnnn", fused<H, kRelu, Width>);
  t.alu("fma.rn.oob.$", "nnnn", fused<H, kOob, Width>);
  t.alu("fma.rn.oob.relu.$", "nnnn", fused<H, kOob | kRelu, Width>);
  t.alu("min.$", "nnn", extremes<H, false, 0, Width>);
  t.alu("max.$", "nnn", extremes<H, true, 0, Width>);
  t.alu("min.NaN.$", "nnn", extremes<H, false, kPropagate, Width>);
  t.alu("max.NaN.$", "nnn", extremes<H, true, kPropagate, Width>);
  t.alu("min.xorsign.abs.$", "nnn", extremes<H, false, kXorsign, Width>);
  t.alu("max.xorsign.abs.$", "nnn", extremes<H, true, kXorsign, Width>);
  t.alu("min.NaN.xorsign.abs.$", "nnn", extremes<H, false, kPropagate | kXorsign, Width>);
  t.alu("max.NaN.xorsign.abs.$", "nnn", extremes<H, true, kPropagate | kXorsign, Width>);
  t.alu("abs.$", "nn", sign_bits<H, 0, Width, 0x7fff, 0>);
  t.alu("neg.$", "nn", sign_bits<H, 0, Width, 0xffff, 0x8000>);
  t.alu("tanh.approx.$", "nn", kSpecial, approximate<H, 0, Width, [](float a) { return hyperbolic(a); }>);
}

template <int Width>
void f16_rows(Table& t) {
  common_rows<F16, Width>(t);
  t.alu("add[.rn].ftz.$", "nnn", arithmetic<F16, kAdd, kFlush, Width>);
  t.alu("sub[.rn].ftz.$", "nnn", arithmetic<F16, kSub, kFlush, Width>);
  t.alu("mul[.rn].ftz.$", "nnn", arithmetic<F16, kMul, kFlush, Width>);
  t.alu("fma.rn.ftz.$", "nnnn", fused<F16, kFlush, Width>);
  t.alu("add[.rn].sat.$", "nnn", arithmetic<F16, kAdd, kSat, Width>);
  t.alu("sub[.rn].sat.$", "nnn", arithmetic<F16, kSub, kSat, Width>);
  t.alu("mul[.rn].sat.$", "nnn", arithmetic<F16, kMul, kSat, Width>);
  t.alu("fma.rn.sat.$", "nnnn", fused<F16, kSat, Width>);
  t.alu("add[.rn].ftz.sat.$", "nnn", arithmetic<F16, kAdd, kFlush | kSat, Width>);
  t.alu("sub[.rn].ftz.sat.$", "nnn", arithmetic<F16, kSub, kFlush | kSat, Width>);
  t.alu("mul[.rn].ftz.sat.$", "nnn", arithmetic<F16, kMul, kFlush | kSat, Width>);
  t.alu("fma.rn.ftz.sat.$", "nnnn", fused<F16, kFlush | kSat, Width>);
  t.alu("fma.rn.ftz.relu.$", "nnnn", fused<F16, kFlush | kRelu, Width>);
  t.alu("min.ftz.$", "nnn", extremes<F16, false, kFlush, Width>);
  t.alu("max.ftz.$", "nnn", extremes<F16, true, kFlush, Width>);
  t.alu("min.ftz.NaN.$", "nnn", extremes<F16, false, kFlush | kPropagate, Width>);
  t.alu("max.ftz.NaN.$", "nnn", extremes<F16, true, kFlush | kPropagate, Width>);
  t.alu("min.ftz.xorsign.abs.$", "nnn", extremes<F16, false, kFlush | kXorsign, Width>);
  t.alu("max.ftz.xorsign.abs.$", "nnn", extremes<F16, true, kFlush | kXorsign, Width>);
  t.alu("min.ftz.NaN.xorsign.abs.$", "nnn", extremes<F16, false, kFlush | kPropagate | kXorsign, Width>);
  t.alu("max.ftz.NaN.xorsign.abs.$", "nnn", extremes<F16, true, kFlush | kPropagate | kXorsign, Width>);
  t.alu("abs.ftz.$", "nn", sign_bits<F16, kFlush, Width, 0x7fff, 0>);
  t.alu("neg.ftz.$", "nn", sign_bits<F16, kFlush, Width, 0xffff, 0x8000>);
  t.alu("ex2.approx.$", "nn", kExponential, approximate<F16, 0, Width, [](float a) { return exp2_f32(a); }>);
}

}  // namespace

void register_half(Table& t) {
  t.family("f16 and bf16 arithmetic", InstClass::kHalf);
  t.effects(does::computes(Cost::kHalf));
  t.type("f16", 'h');
  f16_rows<1>(t);
  t.type("f16x2", 'w');
  f16_rows<2>(t);
  t.type("bf16", 'h');
  common_rows<Bf16, 1>(t);
  t.alu("ex2.approx.ftz.$", "nn", kExponential, approximate<Bf16, 0, 1, [](float a) { return exp2_f32(a); }>);
  t.type("bf16x2", 'w');
  common_rows<Bf16, 2>(t);
  t.alu("ex2.approx.ftz.$", "nn", kExponential, approximate<Bf16, 0, 2, [](float a) { return exp2_f32(a); }>);
}

}  // namespace sglab::emu::SGLAB_ISA
