#include "machine/async/reduce.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "machine/tensor/element.hpp"

namespace sglab::emu {
namespace {

template <typename T>
T integer(ReduceOp op, T old, T value) {
  switch (op) {
    case ReduceOp::kAdd:
      return static_cast<T>(static_cast<std::uint64_t>(old) + static_cast<std::uint64_t>(value));
    case ReduceOp::kMin:
      return old < value ? old : value;
    case ReduceOp::kMax:
      return old > value ? old : value;
    case ReduceOp::kInc:
      return old >= value ? T{0} : static_cast<T>(old + 1);
    case ReduceOp::kDec:
      return old == 0 || old > value ? value : static_cast<T>(old - 1);
    case ReduceOp::kAnd:
      return old & value;
    case ReduceOp::kOr:
      return old | value;
    case ReduceOp::kXor:
      return old ^ value;
  }
  return old;
}

// Which NaN a sum is, as of add.f32 and add.f64: hosts differ in it.
float sum_of(float old, float value) {
  const float sum = old + value;
  return sum == sum ? sum : bits_to_float(0x7fffffffu);
}
double sum_of(double old, double value) {
  const double sum = old + value, nan = value != value ? value : old;
  if (sum == sum) return sum;
  constexpr std::uint64_t kNew = 0xfff8000000000000u, kQuiet = 0x0008000000000000u;
  return std::bit_cast<double>(nan == nan ? kNew : std::bit_cast<std::uint64_t>(nan) | kQuiet);
}

template <typename T>
T real(ReduceOp op, T old, T value) {
  if (op == ReduceOp::kAdd) return sum_of(old, value);
  if (old != old || value != value) return old != old ? value : old;
  if (old == value) return std::signbit(old) == (op == ReduceOp::kMin) ? old : value;
  return (old < value) == (op == ReduceOp::kMin) ? old : value;
}

float flushed(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}

template <typename T, typename Combine>
void each(std::uint8_t* target, const std::uint8_t* source, std::size_t count, Combine combine) {
  for (std::size_t i = 0; i < count; ++i) {
    T old, value;
    std::memcpy(&old, target + i * sizeof(T), sizeof(T));
    std::memcpy(&value, source + i * sizeof(T), sizeof(T));
    old = combine(old, value);
    std::memcpy(target + i * sizeof(T), &old, sizeof(T));
  }
}

template <typename T>
void each_integer(ReduceOp op, std::uint8_t* target, const std::uint8_t* source, std::size_t count) {
  each<T>(target, source, count, [op](T old, T value) { return integer(op, old, value); });
}

void each_half(ReduceOp op, ElementType type, std::uint8_t* target, const std::uint8_t* source,
               std::size_t count) {
  each<std::uint16_t>(target, source, count, [op, type](std::uint16_t old, std::uint16_t value) {
    const float result = real(op, decode_element(type, old), decode_element(type, value));
    return static_cast<std::uint16_t>(encode_element(type, result, false));
  });
}

}  // namespace

std::optional<ReduceOp> parse_reduce_op(std::string_view name) {
  constexpr std::string_view kNames[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  for (int i = 0; i < 8; ++i) {
    if (name == kNames[i]) return static_cast<ReduceOp>(i);
  }
  return std::nullopt;
}

std::optional<ReduceType> parse_reduce_type(std::string_view name) {
  constexpr std::string_view kNames[] = {"u32",  "s32", "u64", "s64", "f16",
                                         "bf16", "f32", "f64", "b32", "b64"};
  for (int i = 0; i < 10; ++i) {
    if (name == kNames[i]) return static_cast<ReduceType>(i);
  }
  return std::nullopt;
}

int reduce_type_bytes(ReduceType type) {
  constexpr std::uint8_t kBytes[] = {4, 4, 8, 8, 2, 2, 4, 8, 4, 8};
  return kBytes[static_cast<int>(type)];
}

bool reduce_is_defined(ReduceOp op, ReduceType type) {
  using T = ReduceType;
  const bool half = type == T::kF16 || type == T::kBf16;
  switch (op) {
    case ReduceOp::kAdd:
      return half || type == T::kU32 || type == T::kS32 || type == T::kU64 || type == T::kF32 ||
             type == T::kF64;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return half || type == T::kU32 || type == T::kS32 || type == T::kU64 || type == T::kS64;
    case ReduceOp::kInc:
    case ReduceOp::kDec:
      return type == T::kU32;
    default:
      return type == T::kB32 || type == T::kB64 || type == T::kU32 || type == T::kU64 || type == T::kS32 ||
             type == T::kS64;
  }
}

void reduce_elements(ReduceOp op, ReduceType type, std::uint8_t* target, const std::uint8_t* source,
                     std::size_t count, bool ftz) {
  if (!reduce_is_defined(op, type))
    throw std::invalid_argument("cp.reduce.async.bulk: no such operation for this type");
  switch (type) {
    case ReduceType::kU32:
    case ReduceType::kB32:
      return each_integer<std::uint32_t>(op, target, source, count);
    case ReduceType::kS32:
      return each_integer<std::int32_t>(op, target, source, count);
    case ReduceType::kU64:
    case ReduceType::kB64:
      return each_integer<std::uint64_t>(op, target, source, count);
    case ReduceType::kS64:
      return each_integer<std::int64_t>(op, target, source, count);
    case ReduceType::kF16:
      return each_half(op, ElementType::kF16, target, source, count);
    case ReduceType::kBf16:
      return each_half(op, ElementType::kBf16, target, source, count);
    case ReduceType::kF32:
      return each<float>(target, source, count, [op, ftz](float a, float b) {
        return ftz ? flushed(real(op, flushed(a), flushed(b))) : real(op, a, b);
      });
    case ReduceType::kF64:
      return each<double>(target, source, count, [op](double a, double b) { return real(op, a, b); });
  }
}

}  // namespace sglab::emu
