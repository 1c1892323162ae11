#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"

// min and max of f32 and f64.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

enum ExtremeFlags { kPropagate = 1, kXorsign = 2, kAbs = 4 };

#if defined(__AVX512F__)
// Sixteen lanes at a time, because compilers make chains of masks of the portable form below.
using Floats = __m512;
constexpr int kStep = 16;
constexpr int kRangeMin = 4, kRangeMax = 5;  // with the result's own sign; -0 is less than +0

inline Floats load(const float* lanes) {
  return _mm512_loadu_ps(lanes);
}
inline void store(float* lanes, Floats f) {
  _mm512_storeu_ps(lanes, f);
}
inline Floats flush(Floats f) {
  const __m512i bits = _mm512_castps_si512(f);
  const __mmask16 tiny = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  return _mm512_castsi512_ps(_mm512_mask_and_epi32(bits, tiny, bits, sign));
}

template <bool Max, int Flags>
inline Floats pick(Floats a, Floats b) {
  const Floats signs = _mm512_xor_ps(a, b), sign = _mm512_set1_ps(-0.0f);
  if constexpr ((Flags & (kXorsign | kAbs)) != 0)
    a = _mm512_andnot_ps(sign, a), b = _mm512_andnot_ps(sign, b);
  const Floats nan = _mm512_castsi512_ps(_mm512_set1_epi32(kNan32));
  Floats r = _mm512_range_ps(a, b, Max ? kRangeMax : kRangeMin);
  r = _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), a);
  r = _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), b);
  const __mmask16 none = (Flags & kPropagate) != 0 ? _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q)
                                                   : _mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q);
  if constexpr ((Flags & kXorsign) != 0) r = _mm512_or_ps(r, _mm512_and_ps(signs, sign));
  return _mm512_mask_mov_ps(r, none, nan);
}
#else
using Floats = float;
constexpr int kStep = 1;

inline Floats load(const float* lanes) {
  return *lanes;
}
inline void store(float* lanes, Floats f) {
  *lanes = f;
}

template <bool Max, int Flags>
inline Floats pick(Floats a, Floats b) {
  const u32 sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
  if (Flags & (kXorsign | kAbs))
    a = float_of(bits_of(a) & 0x7fffffffu), b = float_of(bits_of(b) & 0x7fffffffu);
  float r = extreme<Max>(a, b);
  if (Flags & kXorsign) r = r == r ? float_of(bits_of(r) | sign) : r;
  if (Flags & kPropagate) r = a == a && b == b ? r : float_of(kNan32);
  return r;
}
#endif

template <class F>
inline void each_step(float* d, F f) {
  SGLAB_LANEWISE
  for (int l = 0; l < kLanes; l += kStep) store(d + l, f(l));
}

template <bool Max, int Flags>
const Inst* extreme2(Warp& w, const Inst* i) {
  float* const d = out<float>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  if (i->mode & kFtz) {
    each_step(d, [=](int l) { return pick<Max, Flags>(flush(load(a + l)), flush(load(b + l))); });
  } else {
    each_step(d, [=](int l) { return pick<Max, Flags>(load(a + l), load(b + l)); });
  }
  return i + 1;
}

template <bool Max, int Flags>
const Inst* extreme3(Warp& w, const Inst* i) {
  float* const d = out<float>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b), *const c = in<float>(w, i->c);
  if (i->mode & kFtz) {
    each_step(d, [=](int l) {
      const Floats first = pick<Max, Flags>(flush(load(a + l)), flush(load(b + l)));
      return pick<Max, Flags>(first, flush(load(c + l)));
    });
  } else {
    each_step(
        d, [=](int l) { return pick<Max, Flags>(pick<Max, Flags>(load(a + l), load(b + l)), load(c + l)); });
  }
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
