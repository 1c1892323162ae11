#include "machine/ops/float_op.hpp"
#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"

// f32 arithmetic, alone, in pairs and with halves.
namespace sglab::emu::SGLAB_ISA {
namespace {

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

// Apart, so that its registers are not saved where the host's own rounding is what is asked for.
template <Op O, bool Saturate>
[[gnu::noinline]] const Inst* single_otherwise(Warp& w, const Inst* i) {
  const float* const a = in<float>(w, i->a);
  const float* const b = O == kRcp || O == kSqrt ? a : in<float>(w, i->b);
  arithmetic<O, Saturate>(i->mode, out<float>(w, i->d), a, b, O == kFma ? in<float>(w, i->c) : a);
  return i + 1;
}

template <Op O, bool Saturate = false>
const Inst* single(Warp& w, const Inst* i) {
  if (i->mode != kNearest) return single_otherwise<O, Saturate>(w, i);
  const float* const a = in<float>(w, i->a);
  const float* const b = O == kRcp || O == kSqrt ? a : in<float>(w, i->b);
  const float* const c = O == kFma ? in<float>(w, i->c) : a;
  for_lanes<Saturate, kLanes>(out<float>(w, i->d), [=](int l) { return nearest<O>(a[l], b[l], c[l]); });
  return i + 1;
}

// The same on pairs of f32 in 64-bit registers: 64 lanes, so to speak.
template <Op O>
const Inst* pairs(Warp& w, const Inst* i) {
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  arithmetic<O, false, 2 * kLanes>(i->mode, out<float>(w, i->d), a, b, O == kFma ? in<float>(w, i->c) : a);
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

// add, sub and fma of a half with f32: the half widens exactly, then one rounding.
template <Op O, bool Bf, bool Saturate>
const Inst* mixed(Warp& w, const Inst* i) {
  alignas(64) float wide[2][kLanes];
  const auto* const a = in<std::uint16_t>(w, i->a);
  each(wide[0], [=](int l) { return f32_from_half<Bf>(a[l]); });
  const float* b = in<float>(w, i->b);
  if constexpr (O == kFma) {
    const auto* const halves = in<std::uint16_t>(w, i->b);
    each(wide[1], [=](int l) { return f32_from_half<Bf>(halves[l]); });
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

template <Op O>
void binary_rows(Table& t, const char* name, const char* saturating, const char* packed) {
  t.alu(name, "wff", single<O>);
  t.alu(saturating, "wff", single<O, true>);
  t.alu(packed, "lll", pairs<O>);
}

}  // namespace

void register_float(Table& t) {
  t.family("f32 and f64 arithmetic", InstClass::kFloat);
  t.effects(does::computes(Cost::kFloat));
  binary_rows<kAdd>(t, "add[.rn|.rz|.rm|.rp][.ftz].f32", "add[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                    "add[.rn|.rz|.rm|.rp][.ftz].f32x2");
  binary_rows<kSub>(t, "sub[.rn|.rz|.rm|.rp][.ftz].f32", "sub[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                    "sub[.rn|.rz|.rm|.rp][.ftz].f32x2");
  binary_rows<kMul>(t, "mul[.rn|.rz|.rm|.rp][.ftz].f32", "mul[.rn|.rz|.rm|.rp][.ftz].sat.f32",
                    "mul[.rn|.rz|.rm|.rp][.ftz].f32x2");
  t.alu("fma.{rn|rz|rm|rp}[.ftz].f32", "wfff", single<kFma>);
  t.alu("fma.{rn|rz|rm|rp}[.ftz].sat.f32", "wfff", single<kFma, true>);
  t.alu("mad.{rn|rz|rm|rp}[.ftz].f32", "wfff", single<kFma>);
  t.alu("mad.{rn|rz|rm|rp}[.ftz].sat.f32", "wfff", single<kFma, true>);
  t.alu("fma.{rn|rz|rm|rp}[.ftz].f32x2", "llll", pairs<kFma>);
  t.alu("div.{full|rn|rz|rm|rp}[.ftz].f32", "wff", does::computes(Cost::kDivide), single<kDiv>);
  t.alu("div.approx[.ftz].f32", "wff", does::computes(Cost::kDivide), approximate_quotient);
  t.alu("rcp.{approx|rn|rz|rm|rp}[.ftz].f32", "wf", does::computes(Cost::kReciprocal), single<kRcp>);
  t.alu("sqrt.{approx|rn|rz|rm|rp}[.ftz].f32", "wf", does::computes(Cost::kSquareRoot), single<kSqrt>);
  t.type("f16", 'h');
  mixed_rows<false>(t);
  t.type("bf16", 'h');
  mixed_rows<true>(t);
  register_double(t);
  register_elementary(t);
  register_extremes(t);
  register_float_bits(t);
}

}  // namespace sglab::emu::SGLAB_ISA
