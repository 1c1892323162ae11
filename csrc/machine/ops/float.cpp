#include "machine/float/binary64.hpp"
#include "machine/ops/elementary.hpp"
#include "machine/ops/register.hpp"

namespace sglab::emu::SGLAB_ISA {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum Op { kAdd, kSub, kMul, kFma, kDiv, kRcp, kSqrt };

// Rounded to nearest by the host. Operations with fewer operands ignore the last ones.
template <Op O>
inline float nearest(float a, float b, float c) {
  switch (O) {
    case kAdd:
      return a + b;
    case kSub:
      return a - b;
    case kMul:
      return a * b;
    case kFma:
      return fused(a, b, c);
    case kDiv:
      return a / b;
    case kRcp:
      return 1.0f / a;
    default:
      return __builtin_sqrtf(a);
  }
}

// To nearest, flushing. Sums that are subnormal are exact and roots never subnormal. For the others, the
// operation on operands 2^24 times as large shows what the result would be if exponents had no lower limit;
// where that overflows, the result is zero or far from subnormal.
template <Op O>
inline float nearest_ftz(float x, float y, float z) {
  const float a = flush(x), b = flush(y), c = flush(z);
  const float r = nearest<O>(a, b, c);
  constexpr float kScale = 0x1p24f, kLeast = 0x1p-102f;
  if constexpr (O == kAdd || O == kSub || O == kSqrt) {
    return flush(r);
  } else {
    const float scaled = O == kMul   ? (a * kScale) * b
                         : O == kFma ? fused(a * kScale, b, c * kScale)
                         : O == kDiv ? (a * kScale) / b
                                     : kScale / a;
    return flushed_if(__builtin_fabsf(scaled) < kLeast, r);
  }
}

// In any direction, by way of f64. The exact value is a f64 or rounds to odd there; of a quotient and a root
// the remainder's sign says on which side of the result it is.
template <Op O, bool Ftz>
inline float in_direction(float x, float y, float z, unsigned direction) {
  const auto value = [](float f) { return static_cast<double>(Ftz ? flush(f) : f); };
  if constexpr (O == kDiv || O == kRcp) {
    const double a = O == kRcp ? 1.0 : value(x), b = value(O == kRcp ? x : y), quotient = a / b;
    const auto q = static_cast<float>(quotient);
    const double remainder = a - static_cast<double>(q) * b;
    const float r = directed(q, b < 0 ? -remainder : remainder, direction);
    return Ftz ? flushed_if(is_tiny(quotient, direction), r) : r;
  } else if constexpr (O == kSqrt) {
    const double a = value(x);
    const float root = __builtin_sqrtf(static_cast<float>(a));
    return directed(root, a - static_cast<double>(root) * static_cast<double>(root), direction);
  } else {
    const double a = value(x), b = value(y), c = value(z);
    const double factor = O == kAdd || O == kSub ? 1.0 : b;
    const double addend = O == kAdd ? b : O == kSub ? -b : c;
    double exact = O == kMul ? a * b : fma_to_odd(a, factor, addend);
    if constexpr (O != kMul) {
      // Opposites sum up to -0 when rounding down.
      const bool minus = (bits_of(a * factor) | bits_of(addend)) >> 63 != 0;
      const double zero = direction == kDown && minus ? -0.0 : exact;
      exact = exact == 0 ? zero : exact;
    }
    const float r = narrowed(exact, direction);
    return Ftz ? flushed_if(is_tiny(exact, direction), r) : r;
  }
}

template <bool Saturate, int Count, class F>
inline void for_lanes(float* d, F f) {
  SGLAB_LANEWISE
  for (int l = 0; l < Count; ++l) {
    const float r = canonical(f(l));
    d[l] = Saturate ? clamp01(r) : r;
  }
}

// Whether flushing could change anything: some operand or result is a subnormal number, or a result the
// smallest normal one, which it may be by rounding. Hardly ever so, and cheaper to ask than to flush.
template <Op O, int Count>
inline bool may_flush(const float* a, const float* b, const float* c) {
  std::uint32_t least = ~0u;  // of twice the magnitudes minus one: zeros are far from subnormal numbers
  SGLAB_LANEWISE
  for (int l = 0; l < Count; ++l) {
    const auto see = [&](float f) {
      const std::uint32_t size = 2 * bits_of(f) - 1;
      least = size < least ? size : least;
    };
    see(a[l]);
    if (O != kRcp && O != kSqrt) see(b[l]);
    if (O == kFma) see(c[l]);
    if (O != kSqrt) see(nearest<O>(a[l], b[l], c[l]));
  }
  return least <= 0x00ffffffu;
}

// `Count` lanes; where an operation has fewer operands, the last pointers repeat the first.
template <Op O, bool Saturate, int Count = kLanes>
void arithmetic(unsigned mode, float* d, const float* a, const float* b, const float* c) {
  const unsigned direction = mode & kRoundMask;
  if (direction != kNearest) {
    if (mode & kFtz)
      for_lanes<Saturate, Count>(d,
                                 [=](int l) { return in_direction<O, true>(a[l], b[l], c[l], direction); });
    else
      for_lanes<Saturate, Count>(d,
                                 [=](int l) { return in_direction<O, false>(a[l], b[l], c[l], direction); });
  } else if (mode == kFtz && may_flush<O, Count>(a, b, c)) {
    for_lanes<Saturate, Count>(d, [=](int l) { return nearest_ftz<O>(a[l], b[l], c[l]); });
  } else {
    for_lanes<Saturate, Count>(d, [=](int l) { return nearest<O>(a[l], b[l], c[l]); });
  }
}

template <Op O, bool Saturate = false>
const Inst* single(Warp& w, const Inst* i) {
  const float* const a = in<float>(w, i->a);
  const float* const b = O == kRcp || O == kSqrt ? a : in<float>(w, i->b);
  arithmetic<O, Saturate>(i->mode, out<float>(w, i->d), a, b, O == kFma ? in<float>(w, i->c) : a);
  return i + 1;
}

// The same on pairs of f32 in 64-bit registers: 64 lanes, so to speak.
template <Op O>
const Inst* pairs(Warp& w, const Inst* i) {
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  arithmetic<O, false, 2 * kLanes>(i->mode, out<float>(w, i->d), a, b, O == kFma ? in<float>(w, i->c) : a);
  return i + 1;
}

// Rounded to nearest. Which NaN wins, as on an H100 (the last argument of `propagated` first): the second
// operand, a dividend before a divisor; of a fused multiply-add the second factor, the addend, the first
// factor.
template <Op O>
inline double nearest64(double a, double b, double c) {
  switch (O) {
    case kAdd:
      return a + b;
    case kSub:
      return a - b;
    case kMul:
      return a * b;
    case kFma:
#if defined(__FMA__) || defined(__aarch64__)
      return __builtin_fma(a, b, c);
#else
      return binary64::fused(a, b, c, kNearest);
#endif
    case kDiv:
      return a / b;
    case kRcp:
      return 1.0 / a;
    default:
      return __builtin_sqrt(a);
  }
}

template <Op O>
inline double in_direction64(double a, double b, double c, unsigned mode) {
  switch (O) {
    case kAdd:
      return binary64::add(a, b, mode);
    case kSub:
      return binary64::add(a, -b, mode);
    case kMul:
      return binary64::multiply(a, b, mode);
    case kFma:
      return binary64::fused(a, b, c, mode);
    case kDiv:
      return binary64::divide(a, b, mode);
    case kRcp:
      return binary64::divide(1.0, a, mode);
    default:
      return binary64::square_root(a, mode);
  }
}

template <Op O>
inline double handed_on(double r, double a, double b, double c) {
  if constexpr (O == kFma) return propagated(r, a, c, b);
  if constexpr (O == kDiv) return propagated(r, b, a);
  if constexpr (O == kRcp || O == kSqrt) return propagated(r, a);
  return propagated(r, a, b);
}

template <Op O>
const Inst* twice(Warp& w, const Inst* i) {
  const double* const a = in<double>(w, i->a);
  const double* const b = O == kRcp || O == kSqrt ? a : in<double>(w, i->b);
  const double* const c = O == kFma ? in<double>(w, i->c) : a;
  double* const d = out<double>(w, i->d);
  const unsigned mode = i->mode;
  if (mode == kNearest) {
    each(d, [=](int l) { return handed_on<O>(nearest64<O>(a[l], b[l], c[l]), a[l], b[l], c[l]); });
  } else {
    for (int l = 0; l < kLanes; ++l)
      d[l] = handed_on<O>(in_direction64<O>(a[l], b[l], c[l], mode), a[l], b[l], c[l]);
  }
  return i + 1;
}

// One source, result canonical; with .ftz, input and result are flushed.
template <auto F>
const Inst* approximate(Warp& w, const Inst* i) {
  float* const d = out<float>(w, i->d);
  const float* const a = in<float>(w, i->a);
  if (i->mode & kFtz) {
    each(d, [=](int l) { return flush(canonical(F(flush(a[l])))); });
  } else {
    each(d, [=](int l) { return canonical(F(a[l])); });
  }
  return i + 1;
}

// div.approx multiplies by a reciprocal that is zero for |b| above 2^126; otherwise it is div here.
const Inst* approximate_quotient(Warp& w, const Inst* i) {
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  constexpr std::uint32_t kGreatest = 0x7e800000u;
  std::uint32_t most = 0;
  SGLAB_LANEWISE
  for (int l = 0; l < kLanes; ++l) {
    const std::uint32_t magnitude = bits_of(b[l]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  if (most <= kGreatest) return single<kDiv>(w, i);
  const bool ftz = i->mode & kFtz;
  each(out<float>(w, i->d), [=](int l) {
    const float x = ftz ? flush(a[l]) : a[l], y = ftz ? flush(b[l]) : b[l];
    const bool vanishes = __builtin_fabsf(y) > 0x1p126f;  // not for NaN
    const float r = vanishes ? x * float_of(bits_of(y) & 0x80000000u) : x / y;
    return canonical(ftz ? flush(r) : r);
  });
  return i + 1;
}

template <auto F>
const Inst* unary64(Warp& w, const Inst* i) {
  double* const d = out<double>(w, i->d);
  const double* const a = in<double>(w, i->a);
  each(d, [=](int l) { return propagated(F(a[l]), a[l]); });
  return i + 1;
}

inline double flush64(double f) {
  return (bits_of(f) & 0x7ff0000000000000u) == 0 ? double_of(bits_of(f) & 0x8000000000000000u) : f;
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 work on the upper word only.
template <auto F>
const Inst* upper_word(Warp& w, const Inst* i) {
  double* const d = out<double>(w, i->d);
  const double* const a = in<double>(w, i->a);
  each(d, [=](int l) {
    const double x = flush64(double_of(bits_of(a[l]) & 0xffffffff00000000u));
    return double_of(bits_of(flush64(propagated(F(x), a[l]))) & 0xffffffff00000000u);
  });
  return i + 1;
}

// add, sub and fma of a half with f32: the half widens exactly, then one rounding.
template <bool Bf>
inline float widened(std::uint16_t h) {
  return Bf ? f32_from_bf16(h) : f32_from_f16(h);
}

template <Op O, bool Bf, bool Saturate>
const Inst* mixed(Warp& w, const Inst* i) {
  alignas(64) float wide[2][kLanes];
  const auto* const a = in<std::uint16_t>(w, i->a);
  each(wide[0], [=](int l) { return widened<Bf>(a[l]); });
  const float* b = in<float>(w, i->b);
  if constexpr (O == kFma) {
    const auto* const halves = in<std::uint16_t>(w, i->b);
    each(wide[1], [=](int l) { return widened<Bf>(halves[l]); });
    b = wide[1];
  }
  arithmetic<O, Saturate>(i->mode, out<float>(w, i->d), wide[0], b, O == kFma ? in<float>(w, i->c) : b);
  return i + 1;
}

template <bool Bf>
void mixed_rows(Table& t) {
  t.alu("add[.rn|.rz|.rm|.rp].f32.$", "whf", mixed<kAdd, Bf, false>);
  t.alu("add[.rn|.rz|.rm|.rp].sat.f32.$", "whf", mixed<kAdd, Bf, true>);
  t.alu("sub[.rn|.rz|.rm|.rp].f32.$", "whf", mixed<kSub, Bf, false>);
  t.alu("sub[.rn|.rz|.rm|.rp].sat.f32.$", "whf", mixed<kSub, Bf, true>);
  t.alu("fma.{rn|rz|rm|rp}.f32.$", "whhf", mixed<kFma, Bf, false>);
  t.alu("fma.{rn|rz|rm|rp}.sat.f32.$", "whhf", mixed<kFma, Bf, true>);
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
      case kNormal:  // zero counts as normal (PTX ISA, testp)
        return (m == 0 || m >= Smallest) && m < Infinity;
      case kSubnormal:
        break;
    }
    return m < Smallest && m != 0;
  });
  return i + 1;
}

template <Op O>
void binary_rows(Table& t, const char* name32, const char* saturating, const char* name64,
                 const char* packed) {
  t.alu(name32, "wff", single<O>);
  t.alu(saturating, "wff", single<O, true>);
  t.alu(name64, "ldd", twice<O>);
  t.alu(packed, "lll", pairs<O>);
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
  binary_rows<kAdd>(t, "add[.rn|.rz|.rm|.rp][.ftz].f32", "add[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                    "add[.rn|.rz|.rm|.rp].f64", "add[.rn|.rz|.rm|.rp][.ftz].f32x2");
  binary_rows<kSub>(t, "sub[.rn|.rz|.rm|.rp][.ftz].f32", "sub[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                    "sub[.rn|.rz|.rm|.rp].f64", "sub[.rn|.rz|.rm|.rp][.ftz].f32x2");
  binary_rows<kMul>(t, "mul[.rn|.rz|.rm|.rp][.ftz].f32", "mul[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                    "mul[.rn|.rz|.rm|.rp].f64", "mul[.rn|.rz|.rm|.rp][.ftz].f32x2");
  t.alu("fma.{rn|rz|rm|rp}[.ftz].f32", "wfff", single<kFma>);
  t.alu("fma.{rn|rz|rm|rp}[.ftz].sat.f32", "wfff", single<kFma, true>);
  t.alu("mad.{rn|rz|rm|rp}[.ftz].f32", "wfff", single<kFma>);
  t.alu("mad.{rn|rz|rm|rp}[.ftz].sat.f32", "wfff", single<kFma, true>);
  t.alu("fma.{rn|rz|rm|rp}[.ftz].f32x2", "llll", pairs<kFma>);
  t.alu("fma.{rn|rz|rm|rp}.f64", "lddd", twice<kFma>);
  t.alu("mad.{rn|rz|rm|rp}.f64", "lddd", twice<kFma>);
  t.alu("div.{full|rn|rz|rm|rp}[.ftz].f32", "wff", does::computes(Cost::kDivide), single<kDiv>);
  t.alu("div.approx[.ftz].f32", "wff", does::computes(Cost::kDivide), approximate_quotient);
  t.alu("div.{rn|rz|rm|rp}.f64", "ldd", does::computes(Cost::kDivide), twice<kDiv>);
  t.alu("rcp.{approx|rn|rz|rm|rp}[.ftz].f32", "wf", does::computes(Cost::kReciprocal), single<kRcp>);
  t.alu("sqrt.{approx|rn|rz|rm|rp}[.ftz].f32", "wf", does::computes(Cost::kSquareRoot), single<kSqrt>);
  t.alu(
      "rsqrt.approx[.ftz].f32", "wf", kSpecial,
      approximate<[](float a) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a))); }>);
  t.alu("rcp.{rn|rz|rm|rp}.f64", "ld", does::computes(Cost::kReciprocal), twice<kRcp>);
  t.alu("sqrt.{rn|rz|rm|rp}.f64", "ld", does::computes(Cost::kSquareRoot), twice<kSqrt>);
  t.alu("rcp.approx.ftz.f64", "ld", does::computes(Cost::kReciprocal),
        upper_word<[](double a) { return 1.0 / a; }>);
  t.alu("rsqrt.approx.ftz.f64", "ld", kSpecial, upper_word<[](double a) { return 1.0 / __builtin_sqrt(a); }>);
  t.alu("rsqrt.approx.f64", "ld", kSpecial, unary64<[](double a) { return 1.0 / __builtin_sqrt(a); }>);
  t.alu("ex2.approx[.ftz].f32", "wf", kSpecial.with(&Effects::exponential, true),
        approximate<[](float a) { return exp2_f32(a); }>);
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
