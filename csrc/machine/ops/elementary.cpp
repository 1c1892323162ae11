#include "machine/ops/elementary.hpp"

#include "machine/ops/register.hpp"

// Elementary functions of f32, approximate on a GPU: roots, powers, logarithms, sines.
namespace sglab::emu::SGLAB_ISA {
namespace {

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

// 2^x, of which nothing that .ftz would flush before is seen: next to zero it is 1. It is canonical already.
const Inst* exponential(Warp& w, const Inst* i) {
  float* const d = out<float>(w, i->d);
  const float* const a = in<float>(w, i->a);
  if (i->mode & kFtz) {
    each(d, [=](int l) {
      const std::uint32_t bits = bits_of(exp2_f32(a[l]));
      return float_of(bits < 0x00800000u ? 0 : bits);
    });
  } else {
    each(d, [=](int l) { return exp2_f32(a[l]); });
  }
  return i + 1;
}

}  // namespace

void register_elementary(Table& t) {
  constexpr Effects kSpecial = does::computes(Cost::kSpecialFull);
  t.alu(
      "rsqrt.approx[.ftz].f32", "wf", kSpecial,
      approximate<[](float a) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a))); }>);
  t.alu("ex2.approx[.ftz].f32", "wf", kSpecial.with(&Effects::exponential, true), exponential);
  t.alu("lg2.approx[.ftz].f32", "wf", kSpecial, approximate<[](float a) { return log2_f32(a); }>);
  t.alu("sin.approx[.ftz].f32", "wf", does::computes(Cost::kSine),
        approximate<[](float a) { return sine(a); }>);
  t.alu("cos.approx[.ftz].f32", "wf", does::computes(Cost::kSine),
        approximate<[](float a) { return cosine(a); }>);
  t.alu("tanh.approx.f32", "wf", does::computes(Cost::kSpecial),
        approximate<[](float a) { return hyperbolic(a); }>);
}

}  // namespace sglab::emu::SGLAB_ISA
