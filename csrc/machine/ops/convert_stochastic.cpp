#include "isa/extra.hpp"
#include "machine/ops/register.hpp"
#include "machine/ops/small_float.hpp"
#include "machine/program/builder.hpp"

// cvt.rs: rounding by random bits that the instruction is given. Which bits belong to which value is as
// measured on a B200.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;

// Two halves have random bits of their own, as many as f32 has more: the upper half those from bit 16
// on. Of f16, three bits of each half are not used.
template <bool Bf>
const Inst* pair_stochastic(Warp& w, const Inst* i) {
  const bool relu = i->imm & 1, finite = i->imm & 2;
  const SmallFormat& format = Bf ? kFormatBf16 : kFormatF16;
  constexpr int kRandom = Bf ? 16 : 13;
  constexpr u32 kMask = (1u << kRandom) - 1;
  u32* const d = out<u32>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  const u32* const random = in<u32>(w, i->c);
  const auto one = [&](float f, u32 bits) {
    const double x = relu && f <= 0.0f ? 0.0 : static_cast<double>(f);
    return encode_stochastic(format, x, bits & kMask, kRandom, finite);
  };
  for (int l = 0; l < kLanes; ++l) d[l] = one(b[l], random[l]) | one(a[l], random[l] >> 16) << 16;
  return i + 1;
}

u32 reversed16(u32 bits) {
  u32 r = 0;
  for (int k = 0; k < 16; ++k) r |= (bits >> k & 1u) << (15 - k);
  return r;
}

// Four codes, the first f32 uppermost. The first two share sixteen random bits, the last two the others; the
// first of a pair has them in reverse. T: u16 for the 4-bit format, whose pairs take alternate bytes.
template <class T>
const Inst* quadruple_stochastic(Warp& w, const Inst* i) {
  const SmallFormat& format = format_of(i);
  const bool relu = i->imm & kRelu;
  T* const d = out<T>(w, i->d);
  const float* f[4];
  for (int k = 0; k < 4; ++k) f[k] = in<float>(w, i->extra->refs[static_cast<unsigned>(k)]);
  const u32* const random = in<u32>(w, i->a);
  for (int l = 0; l < kLanes; ++l) {
    const u32 r = random[l];
    const bool four = sizeof(T) == 2;
    const u32 high = four ? (r >> 16 & 0xff00u) | (r >> 8 & 0xffu) : r >> 16;
    const u32 low = four ? (r >> 8 & 0xff00u) | (r & 0xffu) : r & 0xffffu;
    const u32 bits[4] = {reversed16(high), high, reversed16(low), low};
    u32 code = 0;
    for (int k = 0; k < 4; ++k) {
      const double x = relu && f[k][l] <= 0.0f ? 0.0 : static_cast<double>(f[k][l]);
      code = code << 2 * sizeof(T) | encode_stochastic(format, x, bits[k], 16, true);
    }
    d[l] = static_cast<T>(code);
  }
  return i + 1;
}

void build_pair_stochastic(Builder& b) {
  b.expect_count(4, 4);
  b.use(Field::kA, b.operand(1), 'f');
  b.use(Field::kB, b.operand(2), 'f');
  b.use(Field::kC, b.operand(3), 'w');
  b.def(Field::kD, b.operand(0), 'w');
  b.inst.imm = (b.has("relu") ? 1 : 0) | (b.has("satfinite") ? 2 : 0);
  b.lanewise('w', b.form.row->handler);
}

void build_quadruple_stochastic(Builder& b) {
  b.expect_count(3, 3);
  if (b.use_vector(b.operand(1), 'f') != 4) b.refuse("expected four values to convert");
  b.use(Field::kA, b.operand(2), 'w');
  const char width = b.has("e2m1x4") ? 'h' : 'w';
  b.def(Field::kD, b.operand(0), width);
  b.inst.imm = b.form.row->argument | (b.has("relu") ? kRelu : 0);
  b.lanewise(width, b.form.row->handler);
}

}  // namespace

void register_stochastic_conversions(Table& t) {
  constexpr Effects kConverts = does::computes(Cost::kConvert, TaintRule::kCompute);
  t.row("cvt.rs[.relu][.satfinite].f16x2.f32", kConverts, build_pair_stochastic, pair_stochastic<false>);
  t.row("cvt.rs[.relu][.satfinite].bf16x2.f32", kConverts, build_pair_stochastic, pair_stochastic<true>);
  const auto quadruple = [&](const char* pattern, Handler handler, Code code) {
    t.row(pattern, kConverts, build_quadruple_stochastic, handler, code);
  };
  quadruple("cvt.rs[.relu].satfinite.e4m3x4.f32", quadruple_stochastic<u32>, kE4m3);
  quadruple("cvt.rs[.relu].satfinite.e5m2x4.f32", quadruple_stochastic<u32>, kE5m2);
  quadruple("cvt.rs[.relu].satfinite.e2m3x4.f32", quadruple_stochastic<u32>, kE2m3);
  quadruple("cvt.rs[.relu].satfinite.e3m2x4.f32", quadruple_stochastic<u32>, kE3m2);
  quadruple("cvt.rs[.relu].satfinite.e2m1x4.f32", quadruple_stochastic<u16>, kE2m1);
}

}  // namespace sglab::emu::SGLAB_ISA
