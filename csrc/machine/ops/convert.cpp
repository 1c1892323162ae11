#include "machine/float/binary64.hpp"
#include "machine/ops/register.hpp"
#include "machine/ops/small_float.hpp"
#include "machine/program/builder.hpp"

namespace sglab::emu::SGLAB_ISA {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// What a cvt converts: packed into Inst::imm, since sources and destinations may be wider than their types.
struct Kind {
  Type to, from;
  char to_letter, from_letter;
  bool saturate, integral, relu, finite;

  s64 pack() const {
    return static_cast<s64>(to) | static_cast<s64>(from) << 8 | static_cast<s64>(to_letter) << 16 |
           static_cast<s64>(from_letter) << 24 | static_cast<s64>(saturate) << 32 |
           static_cast<s64>(integral) << 33 | static_cast<s64>(relu) << 34 | static_cast<s64>(finite) << 35;
  }
  static Kind unpack(s64 v) {
    return {static_cast<Type>(v & 0xff),
            static_cast<Type>(v >> 8 & 0xff),
            static_cast<char>(v >> 16 & 0xff),
            static_cast<char>(v >> 24 & 0xff),
            (v >> 32 & 1) != 0,
            (v >> 33 & 1) != 0,
            (v >> 34 & 1) != 0,
            (v >> 35 & 1) != 0};
  }
};

template <class R>
void load_typed(const R* a, Type type, s64* v) {
  switch (type) {
    case Type::kU8:
    case Type::kB8:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<u8>(a[l])); });
    case Type::kS8:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<s8>(a[l])); });
    case Type::kU16:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<u16>(a[l])); });
    case Type::kS16:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<s16>(a[l])); });
    case Type::kU32:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<u32>(a[l])); });
    case Type::kS32:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<s32>(a[l])); });
    default:
      return each(v, [=](int l) { return static_cast<s64>(a[l]); });
  }
}

// Integers as 64 bits; u64 keeps its bit pattern.
void load_integers(const Warp& w, const Inst* i, const Kind& k, s64* v) {
  switch (k.from_letter) {
    case 'b':
      return load_typed(in<u8>(w, i->a), k.from, v);
    case 'h':
      return load_typed(in<u16>(w, i->a), k.from, v);
    case 'w':
      return load_typed(in<u32>(w, i->a), k.from, v);
    default:
      return load_typed(in<u64>(w, i->a), k.from, v);
  }
}

// The value is cut to the type, then extended to the register.
template <class T>
void store_typed(Warp& w, const Inst* i, char letter, const s64* v) {
  switch (letter) {
    case 'b':
      return each(out<u8>(w, i->d), [=](int l) { return static_cast<u8>(static_cast<T>(v[l])); });
    case 'h':
      return each(out<u16>(w, i->d), [=](int l) { return static_cast<u16>(static_cast<T>(v[l])); });
    case 'w':
      return each(out<u32>(w, i->d), [=](int l) { return static_cast<u32>(static_cast<T>(v[l])); });
    default:
      return each(out<u64>(w, i->d), [=](int l) { return static_cast<u64>(static_cast<T>(v[l])); });
  }
}

void store_integers(Warp& w, const Inst* i, const Kind& k, const s64* v) {
  switch (k.to) {
    case Type::kU8:
    case Type::kB8:
      return store_typed<u8>(w, i, k.to_letter, v);
    case Type::kS8:
      return store_typed<s8>(w, i, k.to_letter, v);
    case Type::kU16:
    case Type::kB16:
      return store_typed<u16>(w, i, k.to_letter, v);
    case Type::kS16:
      return store_typed<s16>(w, i, k.to_letter, v);
    case Type::kU32:
    case Type::kB32:
      return store_typed<u32>(w, i, k.to_letter, v);
    case Type::kS32:
      return store_typed<s32>(w, i, k.to_letter, v);
    default:
      return store_typed<s64>(w, i, k.to_letter, v);
  }
}

struct Range {
  s64 low;
  u64 high;
};

Range range_of(Type type) {
  const unsigned bits = 8 * type_bytes(type);
  if (is_signed(type)) return {static_cast<s64>(~u64{0} << (bits - 1)), (u64{1} << (bits - 1)) - 1};
  return {0, bits == 64 ? ~u64{0} : (u64{1} << bits) - 1};
}

// Whether the destination has every value of the source, so that .sat could never do anything.
bool contains(Type to, Type from) {
  const Range wide = range_of(to), narrow = range_of(from);
  return wide.low <= narrow.low && wide.high >= narrow.high;
}

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

void load_floats(const Warp& w, const Inst* i, const Kind& k, double* v) {
  switch (k.from) {
    case Type::kF32: {
      const float* const a = in<float>(w, i->a);
      const bool ftz = i->mode & kFtz;
      // flushing is an operation on f32, which makes a NaN canonical
      if (ftz) return each(v, [=](int l) { return static_cast<double>(canonical(flush(a[l]))); });
      return each(v, [=](int l) { return static_cast<double>(a[l]); });
    }
    case Type::kF64: {
      const double* const a = in<double>(w, i->a);
      return each(v, [=](int l) { return a[l]; });
    }
    case Type::kF16: {
      const u16* const a = in<u16>(w, i->a);
      return each(v, [=](int l) { return static_cast<double>(f32_from_f16(a[l])); });
    }
    default: {
      const u16* const a = in<u16>(w, i->a);
      return each(v, [=](int l) { return static_cast<double>(f32_from_bf16(a[l])); });
    }
  }
}

inline double integral(double v, unsigned mode) {
  switch (mode & kRoundMask) {
    case kDown:
      return __builtin_floor(v);
    case kUp:
      return __builtin_ceil(v);
    case kTowardZero:
      return __builtin_trunc(v);
    default:
      return __builtin_nearbyint(v);
  }
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

// The NaN that a f64 NaN becomes: quiet, with its sign and as much of its payload as there is room for.
inline u32 narrowed_nan(double nan, u32 sign, u32 infinity, u32 mantissa_bits) {
  const u64 bits = bits_of(quieted(nan));
  const auto payload = static_cast<u32>((bits & 0xfffffffffffffull) >> (52 - mantissa_bits));
  return (bits >> 63 != 0 ? sign : 0) | infinity | payload;
}

template <class T>
inline T saturated(T v) {  // NaN gives +0
  return v > T{0} ? (v < T{1} ? v : T{1}) : T{0};
}

// Stores with one rounding, in the instruction's mode.
void store_floats(Warp& w, const Inst* i, const Kind& k, const double* v) {
  const bool payloads = k.from == Type::kF64;
  const bool saturate = k.saturate;
  switch (k.to) {
    case Type::kF64:
      return each(out<double>(w, i->d),
                  [=](int l) { return saturate ? saturated(v[l]) : propagated(v[l], v[l]); });
    case Type::kF32: {
      const unsigned direction = i->mode & kRoundMask;
      const bool ftz = i->mode & kFtz;
      alignas(64) float rounded[kLanes];
      if (direction == kNearest)
        each(rounded, [=](int l) { return static_cast<float>(v[l]); });
      else
        each(rounded, [=](int l) { return narrowed(v[l], direction); });
      if (ftz) each(rounded, [&](int l) { return flushed_if(is_tiny(v[l], direction), rounded[l]); });
      each(out<float>(w, i->d), [&](int l) {
        const float r = rounded[l];
        if (saturate) return saturated(r);
        return payloads && r != r ? float_of(narrowed_nan(v[l], 0x80000000u, 0x7f800000u, 23)) : canonical(r);
      });
      return;
    }
    default: {
      const SmallFormat& format = k.to == Type::kF16 ? kFormatF16 : kFormatBf16;
      u16* const d = out<u16>(w, i->d);
      for (int l = 0; l < kLanes; ++l) {
        double x = v[l];
        if (saturate) x = saturated(x);
        if (k.relu) x = x < 0.0 || (x == 0.0 && x == x) ? 0.0 : x;
        d[l] = static_cast<u16>(payloads && x != x
                                    ? narrowed_nan(x, format.sign(), format.infinity(), format.mantissa_bits)
                                    : encode(format, x, i->mode, k.finite));
      }
      return;
    }
  }
}

// Without a modifier nothing is converted, and a NaN keeps its payload.
const Inst* same_f32(Warp& w, const Inst* i) {
  const u32* const a = in<u32>(w, i->a);
  each(out<u32>(w, i->d), [=](int l) { return a[l]; });
  return i + 1;
}

const Inst* same_half(Warp& w, const Inst* i) {
  const u16* const a = in<u16>(w, i->a);
  each(out<u16>(w, i->d), [=](int l) { return a[l]; });
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

// 64-bit integers do not fit a double: it is made odd when bits are lost, which keeps the second rounding
// right.
inline double odd_double(s64 v, bool is_unsigned) {
  const bool negative = !is_unsigned && v < 0;
  u64 magnitude = negative ? 0 - static_cast<u64>(v) : static_cast<u64>(v);
  if (magnitude >> 53 != 0) {
    const u64 lost = magnitude & 0x7ff;
    magnitude = (magnitude & ~u64{0x7ff}) | (lost != 0 ? 0x800 : 0);
  }
  const double high = static_cast<double>(static_cast<s64>(magnitude >> 11)) * 2048.0;
  const double d = magnitude >> 53 != 0 ? high : static_cast<double>(static_cast<s64>(magnitude));
  return negative ? -d : d;
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
inline u16 narrow_nearest(float f) {
  if constexpr (Bf)
    return bf16_from_f32(f);
  else
    return f16_from_f32(f);
}

template <bool Bf>
const Inst* half_nearest(Warp& w, const Inst* i) {
  const float* const a = in<float>(w, i->a);
  each(out<u16>(w, i->d), [=](int l) { return narrow_nearest<Bf>(a[l]); });
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
  t.row("cvt.f16.f16", kConverts, build_cvt, same_half);
  t.row("cvt.bf16.bf16", kConverts, build_cvt, same_half);
  t.row("cvt.sat.f16.f16", kConverts, build_cvt);
  t.row("cvt.{rni|rzi|rmi|rpi}.bf16.bf16", kConverts, build_cvt);
  t.row("cvt.{rni|rzi|rmi|rpi}[.sat].f16.f16", kConverts, build_cvt);
  t.row("cvt.{rni|rzi|rmi|rpi}[.sat].f64.f64", kConverts, build_cvt);
  t.row("cvt[.rni|.rzi|.rmi|.rpi][.ftz][.sat].f32.f32", kConverts, build_cvt);
  register_packed_conversions(t);
  register_stochastic_conversions(t);
}

}  // namespace sglab::emu::SGLAB_ISA
