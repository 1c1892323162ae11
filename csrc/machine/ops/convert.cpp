#include "machine/float/binary64.hpp"
#include "machine/ops/convert_floats.hpp"
#include "machine/ops/convert_integers.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"

// cvt between single numbers.
namespace sglab::emu::SGLAB_ISA {
namespace {

const Inst* integer_to_integer(Warp& w, const Inst* i) {
  const Kind k = Kind::unpack(i->imm);
  alignas(64) s64 v[kLanes];
  load_integers(w, i, k, v);
  if (k.saturate) {
    const Range range = range_of(k.to);
    const bool big = k.from == Type::kU64;
    for (s64& x : v) {
      if ((big || x >= 0) && static_cast<u64>(x) > range.high)
        x = static_cast<s64>(range.high);
      else if (!big && x < range.low)
        x = range.low;
    }
  }
  store_integers(w, i, k, v);
  return i + 1;
}

const Inst* float_to_integer(Warp& w, const Inst* i) {
  const Kind k = Kind::unpack(i->imm);
  alignas(64) double f[kLanes];
  alignas(64) s64 v[kLanes];
  load_floats(w, i, k, f);
  const Range range = range_of(k.to);
  const double least = static_cast<double>(range.low), most = static_cast<double>(range.high);
  const bool wide = k.from == Type::kF64 || type_bytes(k.to) == 8;
  const s64 nan = wide ? static_cast<s64>(u64{1} << (8 * type_bytes(k.to) - 1)) : 0;
  const bool high_half = k.to == Type::kU64;
  for (int l = 0; l < kLanes; ++l) {
    const double r = integral(f[l], i->mode);
    if (r != r)
      v[l] = nan;
    else if (r >= most)
      v[l] = static_cast<s64>(range.high);
    else if (r <= least)
      v[l] = range.low;
    else
      v[l] = high_half && r >= 0x1p63
                 ? static_cast<s64>(static_cast<u64>(static_cast<s64>(r - 0x1p63)) + (u64{1} << 63))
                 : static_cast<s64>(r);
  }
  store_integers(w, i, k, v);
  return i + 1;
}

// Without a modifier nothing is converted, and a NaN keeps its payload.
const Inst* same_f32(Warp& w, const Inst* i) {
  const u32* const a = in<u32>(w, i->a);
  each(out<u32>(w, i->d), [=](int l) { return a[l]; });
  return i + 1;
}

const Inst* float_to_float(Warp& w, const Inst* i) {
  const Kind k = Kind::unpack(i->imm);
  alignas(64) double v[kLanes];
  load_floats(w, i, k, v);
  if (k.integral) {
    for (double& x : v) x = integral(x, i->mode);
  }
  store_floats(w, i, k, v);
  return i + 1;
}

const Inst* integer_to_float(Warp& w, const Inst* i) {
  const Kind k = Kind::unpack(i->imm);
  alignas(64) s64 v[kLanes];
  load_integers(w, i, k, v);
  alignas(64) double f[kLanes];
  const bool is_unsigned = k.from == Type::kU64;
  if (k.to != Type::kF64) {
    for (int l = 0; l < kLanes; ++l) f[l] = odd_double(v[l], is_unsigned);
  } else if (type_bytes(k.from) < 8 || (i->mode == kNearest && !is_unsigned)) {
    each(f, [&](int l) { return static_cast<double>(v[l]); });
  } else if (i->mode == kNearest) {
    // Two exact halves; one rounding when they are added.
    each(f, [&](int l) {
      const auto x = static_cast<u64>(v[l]);
      return static_cast<double>(static_cast<s64>(x >> 32)) * 4294967296.0 +
             static_cast<double>(static_cast<s64>(x & 0xffffffff));
    });
  } else {
    for (int l = 0; l < kLanes; ++l) {
      const bool negative = !is_unsigned && v[l] < 0;
      f[l] = binary64::from_integer(negative, negative ? 0 - static_cast<u64>(v[l]) : static_cast<u64>(v[l]),
                                    i->mode);
    }
  }
  store_floats(w, i, k, f);
  return i + 1;
}

template <bool Bf>
const Inst* half_nearest(Warp& w, const Inst* i) {
  const float* const a = in<float>(w, i->a);
  each(out<u16>(w, i->d), [=](int l) { return half_from_f32<Bf>(a[l]); });
  return i + 1;
}

const Inst* widen_f16(Warp& w, const Inst* i) {
  const u16* const a = in<u16>(w, i->a);
  each(out<float>(w, i->d), [=](int l) { return canonical(f32_from_f16(a[l])); });
  return i + 1;
}

// A shift on the hardware: a signalling NaN stays one.
const Inst* widen_bf16(Warp& w, const Inst* i) {
  const u16* const a = in<u16>(w, i->a);
  each(out<u32>(w, i->d), [=](int l) { return static_cast<u32>(a[l]) << 16; });
  return i + 1;
}

void build_cvt(Builder& b) {
  b.expect_count(2, 2);
  Kind k{};
  k.to = b.type(0);
  k.from = b.type(1);
  k.saturate = b.has("sat");
  k.finite = b.has("satfinite");
  k.relu = b.has("relu");
  k.integral = b.has("rni") || b.has("rzi") || b.has("rmi") || b.has("rpi");
  const bool to_float = is_float(k.to), from_float = is_float(k.from);
  if (k.saturate && !to_float && !from_float && contains(k.to, k.from))
    b.refuse(".sat is not allowed where the destination has every value of the source");
  const char source = letter_of(k.from);
  k.from_letter = b.use(Field::kA, b.operand(1),
                        b.operand(1).kind == OperandKind::kRegister && !from_float ? '*' : source);
  if (letter_bytes(k.from_letter) < type_bytes(k.from))
    b.refuse("the source register is narrower than its type");
  k.to_letter = b.def(Field::kD, b.operand(0), to_float ? letter_of(k.to) : '*');
  if (letter_bytes(k.to_letter) < type_bytes(k.to))
    b.refuse("the destination register is narrower than its type");
  b.set_rounding();
  // A subnormal f32 source is not flushed on its way to f16, whatever .ftz says (H200).
  if (k.to == Type::kF16) b.inst.mode &= static_cast<std::uint8_t>(~kFtz);
  b.inst.imm = k.pack();
  Handler body = b.form.row->handler;
  if (k.from == Type::kF32 && k.to == Type::kF32 && !k.integral && !k.saturate && (b.inst.mode & kFtz) == 0) {
    body = same_f32;
  } else if (body == nullptr) {
    body = to_float ? (from_float ? float_to_float : integer_to_float)
                    : (from_float ? float_to_integer : integer_to_integer);
  }
  b.lanewise(k.to_letter, body);
}

}  // namespace

void register_convert(Table& t) {
  t.family("Conversion", InstClass::kConvert);
  constexpr Effects kConverts = does::computes(Cost::kConvert, TaintRule::kConvert);
  t.effects(kConverts);
  t.row("cvt.rn.f16.f32", kConverts, build_cvt, half_nearest<false>);
  t.row("cvt.rn.bf16.f32", kConverts, build_cvt, half_nearest<true>);
  t.row("cvt.f32.f16", kConverts, build_cvt, widen_f16);
  t.row("cvt.f32.bf16", kConverts, build_cvt, widen_bf16);
  t.row("cvt.u32.u64", kConverts.yielding(Value::kCopy), build_cvt);
  t.row("cvt.u64.u32", kConverts.yielding(Value::kCopy), build_cvt);
  t.row("cvt[.sat].{u8|u16|u32|u64|s8|s16|s32|s64}.{u8|u16|u32|u64|s8|s16|s32|s64}", kConverts, build_cvt);
  t.row("cvt.{rni|rzi|rmi|rpi}[.ftz][.sat].{u8|u16|u32|u64|s8|s16|s32|s64}.f32", kConverts, build_cvt);
  t.row("cvt.{rni|rzi|rmi|rpi}[.sat].{u8|u16|u32|u64|s8|s16|s32|s64}.{f16|bf16|f64}", kConverts, build_cvt);
  t.row("cvt.{rn|rz|rm|rp}[.sat].{f16|f32|f64}.{u8|u16|u32|u64|s8|s16|s32|s64}", kConverts, build_cvt);
  // A whole number is no subnormal: .ftz changes nothing.
  t.row("cvt.{rn|rz|rm|rp}.ftz[.sat].f32.{u8|u16|u32|u64|s8|s16|s32|s64}", kConverts, build_cvt);
  t.row("cvt.{rn|rz|rm|rp}.bf16.{u8|u16|u32|u64|s8|s16|s32|s64}", kConverts, build_cvt);
  t.row("cvt.{rn|rz|rm|rp}[.ftz][.sat].f32.f64", kConverts, build_cvt);
  t.row("cvt[.ftz][.sat].f64.f32", kConverts, build_cvt);
  t.row("cvt.{rn|rz|rm|rp}[.sat].f16.f64", kConverts, build_cvt);
  t.row("cvt.{rn|rz|rm|rp}.bf16.f64", kConverts, build_cvt);
  t.row("cvt[.rn|.rz|.rm|.rp].bf16.f16", kConverts, build_cvt);
  t.row("cvt[.rn|.rz|.rm|.rp].f16.bf16", kConverts, build_cvt);
  t.row("cvt.{rn|rz|rm|rp}[.ftz][.sat].f16.f32", kConverts, build_cvt);
  t.row("cvt.{rn|rz}[.relu][.satfinite].{f16|bf16}.f32", kConverts, build_cvt);
  t.row("cvt[.ftz][.sat].f32.f16", kConverts, build_cvt);
  t.row("cvt[.sat].f64.f16", kConverts, build_cvt);
  t.row("cvt.{rm|rp}.bf16.f32", kConverts, build_cvt);
  t.row("cvt[.rn|.rz|.rm|.rp].f64.bf16", kConverts, build_cvt);
  // Unlike f32, which is moved, halves go through an addition: ptxas makes HADD2, HFMA2.BF16_V2 of them.
  t.row("cvt.f16.f16", kConverts, build_cvt);
  t.row("cvt.bf16.bf16", kConverts, build_cvt);
  t.row("cvt.sat.f16.f16", kConverts, build_cvt);
  t.row("cvt.{rni|rzi|rmi|rpi}.bf16.bf16", kConverts, build_cvt);
  t.row("cvt.{rni|rzi|rmi|rpi}[.sat].f16.f16", kConverts, build_cvt);
  t.row("cvt.{rni|rzi|rmi|rpi}[.sat].f64.f64", kConverts, build_cvt);
  t.row("cvt[.rni|.rzi|.rmi|.rpi][.ftz][.sat].f32.f32", kConverts, build_cvt);
  register_packed_conversions(t);
  register_stochastic_conversions(t);
}

}  // namespace sglab::emu::SGLAB_ISA
