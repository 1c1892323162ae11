#pragma once

#include "machine/ops/convert_integers.hpp"
#include "machine/ops/small_float.hpp"

// The floats of a cvt: read from registers as f64, rounded, and stored with one rounding.
namespace sglab::emu::SGLAB_ISA {
namespace {

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

}  // namespace
}  // namespace sglab::emu::SGLAB_ISA
