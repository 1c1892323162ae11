#include "machine/float/binary64.hpp"
#include "machine/ops/float_op.hpp"
#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"

// f64 arithmetic.
namespace sglab::emu::SGLAB_ISA {
namespace {

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

}  // namespace

void register_double(Table& t) {
  t.alu("add[.rn|.rz|.rm|.rp].f64", "ldd", twice<kAdd>);
  t.alu("sub[.rn|.rz|.rm|.rp].f64", "ldd", twice<kSub>);
  t.alu("mul[.rn|.rz|.rm|.rp].f64", "ldd", twice<kMul>);
  t.alu("fma.{rn|rz|rm|rp}.f64", "lddd", twice<kFma>);
  t.alu("mad.{rn|rz|rm|rp}.f64", "lddd", twice<kFma>);
  t.alu("div.{rn|rz|rm|rp}.f64", "ldd", does::computes(Cost::kDivide), twice<kDiv>);
  t.alu("rcp.{rn|rz|rm|rp}.f64", "ld", does::computes(Cost::kReciprocal), twice<kRcp>);
  t.alu("sqrt.{rn|rz|rm|rp}.f64", "ld", does::computes(Cost::kSquareRoot), twice<kSqrt>);
  constexpr Effects kSpecial = does::computes(Cost::kSpecialFull);
  t.alu("rcp.approx.ftz.f64", "ld", does::computes(Cost::kReciprocal),
        upper_word<[](double a) { return 1.0 / a; }>);
  t.alu("rsqrt.approx.ftz.f64", "ld", kSpecial, upper_word<[](double a) { return 1.0 / __builtin_sqrt(a); }>);
  t.alu("rsqrt.approx.f64", "ld", kSpecial, unary64<[](double a) { return 1.0 / __builtin_sqrt(a); }>);
}

}  // namespace sglab::emu::SGLAB_ISA
