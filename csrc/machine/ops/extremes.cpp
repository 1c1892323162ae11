#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"

// min and max of f32 and f64.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

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

}  // namespace

void register_extremes(Table& t) {
  constexpr Effects kAlu = does::computes(Cost::kAlu);
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

}  // namespace sglab::emu::SGLAB_ISA
