#include <cmath>

#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"

namespace sglab::emu::SGLAB_ISA {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Arithmetic that rounds: the host does it in the mode that the instruction asks for.
template <auto F, bool Saturate>
const Inst* rounded2(Warp& w, const Inst* i) {
  w.fp->set(i->mode);
  float* const d = out<float>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  each(d, [=](int l) {
    const float r = canonical(F(a[l], b[l]));
    return Saturate ? clamp01(r) : r;
  });
  return i + 1;
}

template <auto F, bool Saturate>
const Inst* rounded3(Warp& w, const Inst* i) {
  w.fp->set(i->mode);
  float* const d = out<float>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b), *const c = in<float>(w, i->c);
  each(d, [=](int l) {
    const float r = canonical(F(a[l], b[l], c[l]));
    return Saturate ? clamp01(r) : r;
  });
  return i + 1;
}

template <auto F>
const Inst* double2(Warp& w, const Inst* i) {
  w.fp->set(i->mode);
  const double *const a = in<double>(w, i->a), *const b = in<double>(w, i->b);
  each(out<double>(w, i->d), [=](int l) { return F(a[l], b[l]); });
  return i + 1;
}

template <auto F>
const Inst* double3(Warp& w, const Inst* i) {
  w.fp->set(i->mode);
  const double *const a = in<double>(w, i->a), *const b = in<double>(w, i->b), *const c = in<double>(w, i->c);
  each(out<double>(w, i->d), [=](int l) { return F(a[l], b[l], c[l]); });
  return i + 1;
}

// The same on pairs of f32 in 64-bit registers: 64 lanes, so to speak.
template <auto F>
const Inst* pairs2(Warp& w, const Inst* i) {
  w.fp->set(i->mode);
  float* const d = out<float>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  SGLAB_LANEWISE
  for (int l = 0; l < 2 * kLanes; ++l) d[l] = canonical(F(a[l], b[l]));
  return i + 1;
}

template <auto F>
const Inst* pairs3(Warp& w, const Inst* i) {
  w.fp->set(i->mode);
  float* const d = out<float>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b), *const c = in<float>(w, i->c);
  SGLAB_LANEWISE
  for (int l = 0; l < 2 * kLanes; ++l) d[l] = canonical(F(a[l], b[l], c[l]));
  return i + 1;
}

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSub = [](auto a, auto b) { return a - b; };
constexpr auto kMul = [](auto a, auto b) { return a * b; };
constexpr auto kDiv = [](auto a, auto b) { return a / b; };
constexpr auto kFma32 = [](float a, float b, float c) { return __builtin_fmaf(a, b, c); };

// Which NaN wins, as on an H100 (the last argument of `propagated` first): the second operand, a dividend
// before a divisor; of a fused multiply-add the second factor, the addend, the first factor.
constexpr auto kAdd64 = [](double a, double b) { return propagated(a + b, a, b); };
constexpr auto kSub64 = [](double a, double b) { return propagated(a - b, a, b); };
constexpr auto kMul64 = [](double a, double b) { return propagated(a * b, a, b); };
constexpr auto kDiv64 = [](double a, double b) { return propagated(a / b, b, a); };
constexpr auto kFma64 = [](double a, double b, double c) {
  return propagated(__builtin_fma(a, b, c), a, c, b);
};

// One source, result canonical; flushing of inputs and results is done here, so the host's mode does not
// matter beyond its direction.
template <auto F>
const Inst* approximate(Warp& w, const Inst* i) {
  w.fp->set(i->mode & kRoundMask);
  float* const d = out<float>(w, i->d);
  const float* const a = in<float>(w, i->a);
  if (i->mode & kFtz) {
    each(d, [=](int l) { return flush(canonical(F(flush(a[l])))); });
  } else {
    each(d, [=](int l) { return canonical(F(a[l])); });
  }
  return i + 1;
}

template <auto F>
const Inst* unary64(Warp& w, const Inst* i) {
  w.fp->set(i->mode & kRoundMask);
  double* const d = out<double>(w, i->d);
  const double* const a = in<double>(w, i->a);
  each(d, [=](int l) { return propagated(F(a[l]), a[l]); });
  return i + 1;
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 work on the upper word only.
template <auto F>
const Inst* upper_word(Warp& w, const Inst* i) {
  w.fp->set(kNearest);
  double* const d = out<double>(w, i->d);
  const double* const a = in<double>(w, i->a);
  each(d, [=](int l) {
    return double_of(bits_of(F(double_of(bits_of(a[l]) & 0xffffffff00000000ull))) & 0xffffffff00000000ull);
  });
  return i + 1;
}

inline float sine(float f) {
  return static_cast<float>(std::sin(static_cast<double>(f)));
}
inline float cosine(float f) {
  return static_cast<float>(std::cos(static_cast<double>(f)));
}
inline float hyperbolic(float f) {
  return static_cast<float>(std::tanh(static_cast<double>(f)));
}

// add, sub and fma of a half with f32: the half widens exactly, then one rounding.
template <bool Bf>
inline float widened(std::uint16_t h) {
  return Bf ? f32_from_bf16(h) : f32_from_f16(h);
}

template <auto F, bool Bf, bool Saturate>
const Inst* mixed2(Warp& w, const Inst* i) {
  w.fp->set(i->mode);
  float* const d = out<float>(w, i->d);
  const auto* const a = in<std::uint16_t>(w, i->a);
  const float* const b = in<float>(w, i->b);
  each(d, [=](int l) {
    const float r = canonical(F(widened<Bf>(a[l]), b[l]));
    return Saturate ? clamp01(r) : r;
  });
  return i + 1;
}

template <bool Bf, bool Saturate>
const Inst* mixed3(Warp& w, const Inst* i) {
  w.fp->set(i->mode);
  float* const d = out<float>(w, i->d);
  const auto *const a = in<std::uint16_t>(w, i->a), *const b = in<std::uint16_t>(w, i->b);
  const float* const c = in<float>(w, i->c);
  each(d, [=](int l) {
    const float r = canonical(kFma32(widened<Bf>(a[l]), widened<Bf>(b[l]), c[l]));
    return Saturate ? clamp01(r) : r;
  });
  return i + 1;
}

template <bool Bf>
void mixed_rows(Table& t) {
  t.alu("add[.rn|.rz|.rm|.rp].f32.$", "whf", mixed2<kAdd, Bf, false>);
  t.alu("add[.rn|.rz|.rm|.rp].sat.f32.$", "whf", mixed2<kAdd, Bf, true>);
  t.alu("sub[.rn|.rz|.rm|.rp].f32.$", "whf", mixed2<kSub, Bf, false>);
  t.alu("sub[.rn|.rz|.rm|.rp].sat.f32.$", "whf", mixed2<kSub, Bf, true>);
  t.alu("fma.{rn|rz|rm|rp}.f32.$", "whhf", mixed3<Bf, false>);
  t.alu("fma.{rn|rz|rm|rp}.sat.f32.$", "whhf", mixed3<Bf, true>);
}

enum ExtremeFlags { kPropagate = 1, kXorsign = 2, kAbs = 4 };

template <bool Max, int Flags>
inline float pick(float a, float b) {
  const u32 sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
  if (Flags & (kXorsign | kAbs))
    a = float_of(bits_of(a) & 0x7fffffffu), b = float_of(bits_of(b) & 0x7fffffffu);
  float r = extreme<Max>(a, b);
  if (Flags & kXorsign) r = r == r ? float_of(bits_of(r) | sign) : r;
  if (Flags & kPropagate) r = a == a && b == b ? r : float_of(kNan32);
  return r;
}

template <bool Max, int Flags>
const Inst* extreme2(Warp& w, const Inst* i) {
  w.fp->set(kNearest);
  float* const d = out<float>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  if (i->mode & kFtz) {
    each(d, [=](int l) { return pick<Max, Flags>(flush(a[l]), flush(b[l])); });
  } else {
    each(d, [=](int l) { return pick<Max, Flags>(a[l], b[l]); });
  }
  return i + 1;
}

template <bool Max, int Flags>
const Inst* extreme3(Warp& w, const Inst* i) {
  w.fp->set(kNearest);
  float* const d = out<float>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b), *const c = in<float>(w, i->c);
  const bool ftz = i->mode & kFtz;
  each(d, [=](int l) {
    const float x = ftz ? flush(a[l]) : a[l], y = ftz ? flush(b[l]) : b[l], z = ftz ? flush(c[l]) : c[l];
    return pick<Max, Flags>(pick<Max, Flags>(x, y), z);
  });
  return i + 1;
}

template <bool Max>
inline double extreme64(double a, double b) {
  const bool first = Max ? a > b : a < b;
  const u64 same = Max ? bits_of(a) & bits_of(b) : bits_of(a) | bits_of(b);
  double r = a == b ? double_of(same) : first ? a : b;
  r = b == b ? r : a;
  r = a == a ? r : b;
  return propagated(r, b);
}

const Inst* absolute(Warp& w, const Inst* i) {
  u32* const d = out<u32>(w, i->d);
  const u32* const a = in<u32>(w, i->a);
  const bool ftz = i->mode & kFtz;
  each(d, [=](int l) { return (ftz ? bits_of(flush(float_of(a[l]))) : a[l]) & 0x7fffffffu; });
  return i + 1;
}

const Inst* negated(Warp& w, const Inst* i) {
  u32* const d = out<u32>(w, i->d);
  const u32* const a = in<u32>(w, i->a);
  const bool ftz = i->mode & kFtz;
  each(d, [=](int l) { return (ftz ? bits_of(flush(float_of(a[l]))) : a[l]) ^ 0x80000000u; });
  return i + 1;
}

enum Property { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };

template <class T, class U, U Infinity, U Smallest>
const Inst* test_property(Warp& w, const Inst* i) {
  const U* const a = in<U>(w, i->a);
  const auto property = static_cast<Property>(i->imm);
  w.predicates[i->d] = mask_of([=](int l) {
    const U m = a[l] & (~U{0} >> 1);
    switch (property) {
      case kFinite:
        return m < Infinity;
      case kInfinite:
        return m == Infinity;
      case kNumber:
        return m <= Infinity;
      case kNotANumber:
        return m > Infinity;
      case kNormal:
        return m >= Smallest && m < Infinity;
      case kSubnormal:
        break;
    }
    return m < Smallest && m != 0;
  });
  return i + 1;
}

template <auto F, auto F64>
void binary_rows(Table& t, const char* name32, const char* saturating, const char* name64,
                 const char* pairs) {
  t.alu(name32, "wff", rounded2<F, false>);
  t.alu(saturating, "wff", rounded2<F, true>);
  t.alu(name64, "ldd", double2<F64>);
  t.alu(pairs, "lll", pairs2<F>);
}

constexpr Effects kAlu = does::computes(Cost::kAlu);
constexpr Effects kSpecial = does::computes(Cost::kSpecialFull);

void register_extremes(Table& t) {
  t.alu("min[.ftz].f32", "wff", kAlu, extreme2<false, 0>);
  t.alu("max[.ftz].f32", "wff", kAlu, extreme2<true, 0>);
  t.alu("min[.ftz].NaN.f32", "wff", kAlu, extreme2<false, kPropagate>);
  t.alu("max[.ftz].NaN.f32", "wff", kAlu, extreme2<true, kPropagate>);
  t.alu("min[.ftz].xorsign.abs.f32", "wff", kAlu, extreme2<false, kXorsign>);
  t.alu("max[.ftz].xorsign.abs.f32", "wff", kAlu, extreme2<true, kXorsign>);
  t.alu("min[.ftz].NaN.xorsign.abs.f32", "wff", kAlu, extreme2<false, kXorsign | kPropagate>);
  t.alu("max[.ftz].NaN.xorsign.abs.f32", "wff", kAlu, extreme2<true, kXorsign | kPropagate>);
  t.alu("min[.ftz].f32", "wfff", kAlu, extreme3<false, 0>);
  t.alu("max[.ftz].f32", "wfff", kAlu, extreme3<true, 0>);
  t.alu("min[.ftz].NaN.f32", "wfff", kAlu, extreme3<false, kPropagate>);
  t.alu("max[.ftz].NaN.f32", "wfff", kAlu, extreme3<true, kPropagate>);
  t.alu("min[.ftz].abs.f32", "wfff", kAlu, extreme3<false, kAbs>);
  t.alu("max[.ftz].abs.f32", "wfff", kAlu, extreme3<true, kAbs>);
  t.alu("min[.ftz].NaN.abs.f32", "wfff", kAlu, extreme3<false, kPropagate | kAbs>);
  t.alu("max[.ftz].NaN.abs.f32", "wfff", kAlu, extreme3<true, kPropagate | kAbs>);
  t.alu("min.f64", "ldd", does::computes(Cost::kDouble),
        binary<[](double a, double b) { return extreme64<false>(a, b); }, double, double>);
  t.alu("max.f64", "ldd", does::computes(Cost::kDouble),
        binary<[](double a, double b) { return extreme64<true>(a, b); }, double, double>);
}

void register_properties(Table& t) {
  static constexpr const char* kNames[] = {"testp.finite.$",     "testp.infinite.$", "testp.number.$",
                                           "testp.notanumber.$", "testp.normal.$",   "testp.subnormal.$"};
  t.type("f32", 'f');
  for (int p = 0; p < 6; ++p)
    t.alu(kNames[p], "pn", kAlu, test_property<float, u32, 0x7f800000u, 0x00800000u>, p);
  t.type("f64", 'd');
  for (int p = 0; p < 6; ++p) {
    t.alu(kNames[p], "pn", kAlu, test_property<double, u64, 0x7ff0000000000000u, 0x0010000000000000u>, p);
  }
}

}  // namespace

void register_float(Table& t) {
  t.family("f32 and f64 arithmetic", InstClass::kFloat);
  t.effects(does::computes(Cost::kFloat));
  binary_rows<kAdd, kAdd64>(t, "add[.rn|.rz|.rm|.rp][.ftz].f32", "add[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                            "add[.rn|.rz|.rm|.rp].f64", "add[.rn|.rz|.rm|.rp][.ftz].f32x2");
  binary_rows<kSub, kSub64>(t, "sub[.rn|.rz|.rm|.rp][.ftz].f32", "sub[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                            "sub[.rn|.rz|.rm|.rp].f64", "sub[.rn|.rz|.rm|.rp][.ftz].f32x2");
  binary_rows<kMul, kMul64>(t, "mul[.rn|.rz|.rm|.rp][.ftz].f32", "mul[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                            "mul[.rn|.rz|.rm|.rp].f64", "mul[.rn|.rz|.rm|.rp][.ftz].f32x2");
  t.alu("fma.{rn|rz|rm|rp}[.ftz].f32", "wfff", rounded3<kFma32, false>);
  t.alu("fma.{rn|rz|rm|rp}[.ftz].sat.f32", "wfff", rounded3<kFma32, true>);
  t.alu("mad[.rn|.rz|.rm|.rp][.ftz].f32", "wfff", rounded3<kFma32, false>);
  t.alu("mad[.rn|.rz|.rm|.rp][.ftz].sat.f32", "wfff", rounded3<kFma32, true>);
  t.alu("fma.{rn|rz|rm|rp}[.ftz].f32x2", "llll", pairs3<kFma32>);
  t.alu("fma.{rn|rz|rm|rp}.f64", "lddd", double3<kFma64>);
  t.alu("mad.{rn|rz|rm|rp}.f64", "lddd", double3<kFma64>);
  t.alu("div.{approx|full|rn|rz|rm|rp}[.ftz].f32", "wff", does::computes(Cost::kDivide),
        rounded2<kDiv, false>);
  t.alu("div.{rn|rz|rm|rp}.f64", "ldd", does::computes(Cost::kDivide), double2<kDiv64>);
  t.alu("rcp.{approx|rn|rz|rm|rp}[.ftz].f32", "wf", does::computes(Cost::kReciprocal),
        approximate<[](float a) { return 1.0f / a; }>);
  t.alu("sqrt.{approx|rn|rz|rm|rp}[.ftz].f32", "wf", does::computes(Cost::kSquareRoot),
        approximate<[](float a) { return __builtin_sqrtf(a); }>);
  t.alu(
      "rsqrt.approx[.ftz].f32", "wf", kSpecial,
      approximate<[](float a) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a))); }>);
  t.alu("rcp.{rn|rz|rm|rp}.f64", "ld", does::computes(Cost::kReciprocal),
        unary64<[](double a) { return 1.0 / a; }>);
  t.alu("sqrt.{rn|rz|rm|rp}.f64", "ld", does::computes(Cost::kSquareRoot),
        unary64<[](double a) { return __builtin_sqrt(a); }>);
  t.alu("rcp.approx.ftz.f64", "ld", does::computes(Cost::kReciprocal),
        upper_word<[](double a) { return 1.0 / a; }>);
  t.alu("rsqrt.approx.ftz.f64", "ld", kSpecial, upper_word<[](double a) { return 1.0 / __builtin_sqrt(a); }>);
  t.alu("rsqrt.approx.f64", "ld", kSpecial, unary64<[](double a) { return 1.0 / __builtin_sqrt(a); }>);
  t.alu("ex2.approx[.ftz].f32", "wf", kSpecial, approximate<[](float a) { return exp2_f32(a); }>);
  t.alu("lg2.approx[.ftz].f32", "wf", kSpecial, approximate<[](float a) { return log2_f32(a); }>);
  t.alu("sin.approx[.ftz].f32", "wf", does::computes(Cost::kSine),
        approximate<[](float a) { return sine(a); }>);
  t.alu("cos.approx[.ftz].f32", "wf", does::computes(Cost::kSine),
        approximate<[](float a) { return cosine(a); }>);
  t.alu("tanh.approx.f32", "wf", does::computes(Cost::kSpecial),
        approximate<[](float a) { return hyperbolic(a); }>);
  t.alu("abs[.ftz].f32", "wf", does::computes(Cost::kFree), absolute);
  t.alu("neg[.ftz].f32", "wf", does::computes(Cost::kFree), negated);
  t.alu("abs.f64", "ld", does::computes(Cost::kFree),
        unary<[](u64 a) { return a & 0x7fffffffffffffffull; }, u64, u64>);
  t.alu("neg.f64", "ld", does::computes(Cost::kFree),
        unary<[](u64 a) { return a ^ 0x8000000000000000ull; }, u64, u64>);
  t.alu("copysign.f32", "wff", kAlu,
        binary<[](u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }, u32, u32>);
  t.alu("copysign.f64", "ldd", kAlu,
        binary<[](u64 a, u64 b) { return (a & 0x8000000000000000ull) | (b & 0x7fffffffffffffffull); }, u64,
               u64>);
  register_extremes(t);
  t.type("f16", 'h');
  mixed_rows<false>(t);
  t.type("bf16", 'h');
  mixed_rows<true>(t);
  register_properties(t);
}

}  // namespace sglab::emu::SGLAB_ISA
