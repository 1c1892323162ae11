#include "machine/ops/register.hpp"
#include "machine/ops/small_float.hpp"
#include "machine/program/builder.hpp"

// cvt to and from pairs of narrow floats, and to tf32. Of two f32 sources the first goes to the upper part.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

template <class F>
const Inst* halves_from_f32(Warp& w, const Inst* i, F narrow) {
  u32* const d = out<u32>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  each(d, [=](int l) { return static_cast<u32>(narrow(b[l])) | static_cast<u32>(narrow(a[l])) << 16; });
  return i + 1;
}

#if defined(__AVX2__)
// The host's own conversion, but for NaN.
inline __m256i halves_of(const float* source) {
  const __m256 value = _mm256_loadu_ps(source);
  const __m256i halves =
      _mm256_cvtepu16_epi32(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(halves, _mm256_set1_epi32(kNan16), nan);
}

inline void pair_of_halves(u32* d, const float* low, const float* high) {
  for (int l = 0; l < kLanes; l += 8) {
    const __m256i both = _mm256_or_si256(halves_of(low + l), _mm256_slli_epi32(halves_of(high + l), 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + l), both);
  }
}
#endif

template <bool Bf>
const Inst* pair_nearest(Warp& w, const Inst* i) {
#if defined(__AVX2__)
  if constexpr (!Bf) {
    pair_of_halves(out<u32>(w, i->d), in<float>(w, i->b), in<float>(w, i->a));
    return i + 1;
  }
#endif
  return halves_from_f32(w, i, [](float f) { return half_from_f32<Bf>(f); });
}

template <bool Bf>
const Inst* pair_general(Warp& w, const Inst* i) {
  const unsigned mode = i->mode;
  const bool relu = i->imm & 1, finite = i->imm & 2;
  const SmallFormat& format = Bf ? kFormatBf16 : kFormatF16;
  u32* const d = out<u32>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  const auto one = [&](float f) {
    const double x = relu && f <= 0.0f ? 0.0 : static_cast<double>(f);
    return encode(format, x, mode, finite);
  };
  for (int l = 0; l < kLanes; ++l) d[l] = one(b[l]) | one(a[l]) << 16;
  return i + 1;
}

// Formats of 8 bits and less: Inst::imm has the format and flags.
inline u32 encode_code(const SmallFormat& format, const Inst* i, double f) {
  return encode(format, (i->imm & kRelu) && f <= 0.0 ? 0.0 : f, kNearest, true);
}

// T holds two codes: u8 for the 4-bit format, u16 for the others.
template <class T>
const Inst* codes_from_f32(Warp& w, const Inst* i) {
  const SmallFormat& format = format_of(i);
  T* const d = out<T>(w, i->d);
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  for (int l = 0; l < kLanes; ++l) {
    const u32 low = encode_code(format, i, static_cast<double>(b[l])),
              high = encode_code(format, i, static_cast<double>(a[l]));
    d[l] = static_cast<T>(low | high << 4 * sizeof(T));
  }
  return i + 1;
}

template <bool Bf>
const Inst* codes_from_halves(Warp& w, const Inst* i) {
  const SmallFormat& format = format_of(i);
  u16* const d = out<u16>(w, i->d);
  const u32* const a = in<u32>(w, i->a);
  const auto one = [&](u32 h) {
    const auto half = static_cast<u16>(h);
    return encode_code(format, i, static_cast<double>(f32_from_half<Bf>(half)));
  };
  for (int l = 0; l < kLanes; ++l) d[l] = static_cast<u16>(one(a[l]) | one(a[l] >> 16) << 8);
  return i + 1;
}

template <class T>
const Inst* halves_from_codes(Warp& w, const Inst* i) {
  const SmallFormat& format = format_of(i);
  u32* const d = out<u32>(w, i->d);
  const T* const a = in<T>(w, i->a);
  constexpr unsigned kWidth = 4 * sizeof(T);
  const auto one = [&](u32 code) {
    const double v = decode(format, code & ((1u << kWidth) - 1));
    return encode(kFormatF16, (i->imm & kRelu) && v <= 0.0 ? 0.0 : v, kNearest, false);
  };
  for (int l = 0; l < kLanes; ++l) d[l] = one(a[l]) | one(a[l] >> kWidth) << 16;
  return i + 1;
}

// cvt.pack: two saturated integers below the lower bits of a third operand. Inst::imm: their width, and
// whether they are signed.
constexpr std::int64_t kSignedField = 256;

template <bool Merges>
const Inst* pack_fields(Warp& w, const Inst* i) {
  const int width = static_cast<int>(i->imm & 255);
  const bool is_signed = i->imm & kSignedField;
  const std::int32_t least = is_signed ? -(1 << (width - 1)) : 0;
  const std::int32_t most = is_signed ? (1 << (width - 1)) - 1 : (1 << width) - 1;
  const u32 mask = (1u << width) - 1;
  const auto* const a = in<std::int32_t>(w, i->a);
  const auto* const b = in<std::int32_t>(w, i->b);
  const u32* const c = Merges ? in<u32>(w, i->c) : nullptr;
  const auto field = [=](std::int32_t v) {
    return static_cast<u32>(v < least ? least : v > most ? most : v) & mask;
  };
  each(out<u32>(w, i->d),
       [=](int l) { return field(b[l]) | field(a[l]) << width | (Merges ? c[l] << 2 * width : 0u); });
  return i + 1;
}

// The same for the two formats of attention kernels, on the bits: normal results round on the fraction,
// subnormal ones by adding the power of two whose unit in the last place is theirs. Too large becomes the
// largest finite value.
template <bool E5m2>
inline u32 fp8_nearest(float f) {
  constexpr u32 cut = E5m2 ? 21 : 20, bias = E5m2 ? 15 : 7, largest = E5m2 ? 0x7b : 0x7e;
  constexpr u32 least_normal = (128 - bias) << 23;
  constexpr float shift = E5m2 ? 0x1p7f : 0x1p14f;
  const u32 bits = bits_of(f), magnitude = bits & 0x7fffffffu;
  const u32 normal =
      ((magnitude + (1u << (cut - 1)) - 1 + (magnitude >> cut & 1u)) >> cut) - ((127 - bias) << (23 - cut));
  const u32 subnormal = bits_of(float_of(magnitude) + shift) - bits_of(shift);
  u32 code = magnitude < least_normal ? subnormal : normal;
  code = code > largest ? largest : code;
  code = magnitude > 0x7f800000u ? 0x7fu : code;
  return code | (magnitude > 0x7f800000u ? 0u : bits >> 24 & 0x80u);
}

template <bool E5m2>
const Inst* fp8_from_f32(Warp& w, const Inst* i) {
  const bool relu = i->imm & kRelu;
  const float *const a = in<float>(w, i->a), *const b = in<float>(w, i->b);
  each(out<u16>(w, i->d), [=](int l) {
    const float low = relu && b[l] <= 0.0f ? 0.0f : b[l], high = relu && a[l] <= 0.0f ? 0.0f : a[l];
    return static_cast<u16>(fp8_nearest<E5m2>(low) | fp8_nearest<E5m2>(high) << 8);
  });
  return i + 1;
}

// ue8m0 is an f32's exponent field alone; the sign is dropped. 0xff is NaN.
template <bool Up, bool Finite>
inline u32 exponent_code(u32 bits) {
  const u32 magnitude = bits & 0x7fffffffu;
  u32 code = magnitude >> 23;
  const bool above = (magnitude & 0x007fffffu) != 0 && magnitude > 0x00400000u && magnitude < 0x7f800000u;
  if (Up && above) ++code;
  return Finite && magnitude <= 0x7f800000u && code == 0xff ? 0xfe : code;
}

template <bool Up, bool Finite>
const Inst* exponents_from_f32(Warp& w, const Inst* i) {
  u16* const d = out<u16>(w, i->d);
  const u32 *const a = in<u32>(w, i->a), *const b = in<u32>(w, i->b);
  each(d, [=](int l) {
    return static_cast<u16>(exponent_code<Up, Finite>(b[l]) | exponent_code<Up, Finite>(a[l]) << 8);
  });
  return i + 1;
}

template <bool Up, bool Finite>
const Inst* exponents_from_bf16(Warp& w, const Inst* i) {
  u16* const d = out<u16>(w, i->d);
  const u32* const a = in<u32>(w, i->a);
  each(d, [=](int l) {
    return static_cast<u16>(exponent_code<Up, Finite>(a[l] << 16) |
                            exponent_code<Up, Finite>(a[l] & 0xffff0000u) << 8);
  });
  return i + 1;
}

constexpr u32 bf16_from_exponent(u32 code) {
  return code == 0xff ? kNan16 : code == 0 ? 0x0040 : code << 7;
}

const Inst* bf16_from_exponents(Warp& w, const Inst* i) {
  u32* const d = out<u32>(w, i->d);
  const u16* const a = in<u16>(w, i->a);
  each(d, [=](int l) { return bf16_from_exponent(a[l] & 0xffu) | bf16_from_exponent(a[l] >> 8) << 16; });
  return i + 1;
}

// tf32 keeps ten fraction bits, those of a NaN included. .rna is integer code that only cuts a NaN.
enum Tf32 { kAway, kEven, kZero };
template <Tf32 Rounding, bool Relu>
inline u32 tf32(u32 bits) {
  const u32 magnitude = bits & 0x7fffffffu;
  if (Rounding != kAway && magnitude > 0x7f800000u) return kNan32 & 0xffffe000u;
  u32 r = bits;
  if (Rounding == kAway) r += 0x1000u;
  if (Rounding == kEven) r += 0xfffu + (bits >> 13 & 1u);
  r = magnitude >= 0x7f800000u ? bits : r;
  if (Relu && (bits & 0x80000000u)) return 0;
  return r & 0xffffe000u;
}

void build_pair(Builder& b) {
  b.expect_count(3, 3);
  b.use(Field::kA, b.operand(1), 'f');
  b.use(Field::kB, b.operand(2), 'f');
  b.def(Field::kD, b.operand(0), 'w');
  b.set_rounding();
  b.inst.imm = (b.has("relu") ? 1 : 0) | (b.has("satfinite") ? 2 : 0);
  b.lanewise('w', b.form.row->handler);
}

void register_pack(Table& t) {
  constexpr Effects kPacks = does::computes(Cost::kAlu, TaintRule::kCompute);
  t.alu("cvt.pack.sat.u16.s32", "www", kPacks, pack_fields<false>, 16);
  t.alu("cvt.pack.sat.s16.s32", "www", kPacks, pack_fields<false>, 16 | kSignedField);
  t.alu("cvt.pack.sat.u8.s32.b32", "wwww", kPacks, pack_fields<true>, 8);
  t.alu("cvt.pack.sat.s8.s32.b32", "wwww", kPacks, pack_fields<true>, 8 | kSignedField);
  t.alu("cvt.pack.sat.u4.s32.b32", "wwww", kPacks, pack_fields<true>, 4);
  t.alu("cvt.pack.sat.s4.s32.b32", "wwww", kPacks, pack_fields<true>, 4 | kSignedField);
  t.alu("cvt.pack.sat.u2.s32.b32", "wwww", kPacks, pack_fields<true>, 2);
  t.alu("cvt.pack.sat.s2.s32.b32", "wwww", kPacks, pack_fields<true>, 2 | kSignedField);
}

struct CodeName {
  const char* pair;
  Code code;
};

void register_eight_bits(Table& t) {
  for (const auto& [pair, code] : {CodeName{"e4m3x2", kE4m3}, CodeName{"e5m2x2", kE5m2}}) {
    t.type(pair, ' ');
    t.alu("cvt.rn.satfinite.$.f16x2", "hw", codes_from_halves<false>, code);
    t.alu("cvt.rn.satfinite.relu.$.f16x2", "hw", codes_from_halves<false>, code | kRelu);
    t.alu("cvt.rn.satfinite.$.bf16x2", "hw", codes_from_halves<true>, code);
    t.alu("cvt.rn.satfinite.relu.$.bf16x2", "hw", codes_from_halves<true>, code | kRelu);
  }
  for (const auto& [pair, code] : {CodeName{"e4m3x2", kE4m3}, CodeName{"e5m2x2", kE5m2},
                                   CodeName{"e2m3x2", kE2m3}, CodeName{"e3m2x2", kE3m2}}) {
    t.type(pair, ' ');
    const auto from_f32 = code == kE4m3   ? fp8_from_f32<false>
                          : code == kE5m2 ? fp8_from_f32<true>
                                          : codes_from_f32<u16>;
    t.alu("cvt.rn.satfinite.$.f32", "hff", from_f32, code);
    t.alu("cvt.rn.satfinite.relu.$.f32", "hff", from_f32, code | kRelu);
    t.alu("cvt.rn.f16x2.$", "wh", halves_from_codes<u16>, code);
    t.alu("cvt.rn.relu.f16x2.$", "wh", halves_from_codes<u16>, code | kRelu);
  }
  t.alu("cvt.rn.satfinite.e2m1x2.f32", "bff", codes_from_f32<u8>, kE2m1);
  t.alu("cvt.rn.satfinite.relu.e2m1x2.f32", "bff", codes_from_f32<u8>, kE2m1 | kRelu);
  t.alu("cvt.rn.f16x2.e2m1x2", "wb", halves_from_codes<u8>, kE2m1);
  t.alu("cvt.rn.relu.f16x2.e2m1x2", "wb", halves_from_codes<u8>, kE2m1 | kRelu);
  t.alu("cvt.rz.ue8m0x2.f32", "hff", exponents_from_f32<false, false>);
  t.alu("cvt.rp.ue8m0x2.f32", "hff", exponents_from_f32<true, false>);
  t.alu("cvt.rz.satfinite.ue8m0x2.f32", "hff", exponents_from_f32<false, true>);
  t.alu("cvt.rp.satfinite.ue8m0x2.f32", "hff", exponents_from_f32<true, true>);
  t.alu("cvt.rz.ue8m0x2.bf16x2", "hw", exponents_from_bf16<false, false>);
  t.alu("cvt.rp.ue8m0x2.bf16x2", "hw", exponents_from_bf16<true, false>);
  t.alu("cvt.rz.satfinite.ue8m0x2.bf16x2", "hw", exponents_from_bf16<false, true>);
  t.alu("cvt.rp.satfinite.ue8m0x2.bf16x2", "hw", exponents_from_bf16<true, true>);
  t.alu("cvt.rn.bf16x2.ue8m0x2", "wh", bf16_from_exponents);
}

}  // namespace

void register_packed_conversions(Table& t) {
  t.row("cvt.rn.f16x2.f32", does::computes(Cost::kConvert, TaintRule::kConvert), build_pair,
        pair_nearest<false>);
  t.row("cvt.rn.bf16x2.f32", does::computes(Cost::kConvert, TaintRule::kConvert), build_pair,
        pair_nearest<true>);
  t.row("cvt.{rn|rz}[.relu][.satfinite].f16x2.f32", does::computes(Cost::kConvert, TaintRule::kConvert),
        build_pair, pair_general<false>);
  t.row("cvt.{rn|rz}[.relu][.satfinite].bf16x2.f32", does::computes(Cost::kConvert, TaintRule::kConvert),
        build_pair, pair_general<true>);
  t.alu("cvt.rna.tf32.f32", "ww", unary<[](u32 a) { return tf32<kAway, false>(a); }, u32, u32>);
  t.alu("cvt.rn.tf32.f32", "ww", unary<[](u32 a) { return tf32<kEven, false>(a); }, u32, u32>);
  t.alu("cvt.rz.tf32.f32", "ww", unary<[](u32 a) { return tf32<kZero, false>(a); }, u32, u32>);
  t.alu("cvt.rn.relu.tf32.f32", "ww", unary<[](u32 a) { return tf32<kEven, true>(a); }, u32, u32>);
  t.alu("cvt.rz.relu.tf32.f32", "ww", unary<[](u32 a) { return tf32<kZero, true>(a); }, u32, u32>);
  register_eight_bits(t);
  register_pack(t);
}

}  // namespace sglab::emu::SGLAB_ISA
