#include "observe/record/float_types.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"

namespace sglab::emu {
namespace {

std::uint64_t window_of(const Cluster& cluster, std::uint64_t address) {
  return static_cast<std::uint64_t>(cluster.index) << 8 | address >> kSharedRankShift;
}

// Exponent and significand compared at once.
bool beyond(std::uint64_t bits, std::uint64_t magnitude, std::uint64_t infinity, bool infinite) {
  return (bits & magnitude) > infinity || (infinite && (bits & magnitude) == infinity);
}
bool half(std::uint32_t bits, bool infinite) {
  return beyond(bits, 0x7fff, 0x7c00, infinite);
}
bool brain(std::uint32_t bits, bool infinite) {
  return beyond(bits, 0x7fff, 0x7f80, infinite);
}
bool e4m3(std::uint32_t bits) {
  return (bits & 0x7f) == 0x7f;  // it has no infinities
}
bool e5m2(std::uint32_t bits, bool infinite) {
  return beyond(bits, 0x7f, 0x7c, infinite);
}

}  // namespace

bool is_nan(FloatKind kind, std::uint64_t bits, bool infinite) {
  const auto low = static_cast<std::uint32_t>(bits);
  const auto any_byte = [bits](auto is) {
    for (int shift = 0; shift < 64; shift += 8)
      if (is(static_cast<std::uint32_t>(bits >> shift & 0xff))) return true;
    return false;
  };
  switch (kind) {
    case FloatKind::kNone:
    case FloatKind::kMoved:
      return false;
    case FloatKind::kF16:
      return half(low & 0xffff, infinite);
    case FloatKind::kBf16:
      return brain(low & 0xffff, infinite);
    case FloatKind::kF32:
      return beyond(low, 0x7fffffff, 0x7f800000, infinite);
    case FloatKind::kF64:
      return beyond(bits, 0x7fffffffffffffffu, 0x7ff0000000000000u, infinite);
    case FloatKind::kF16x2:
      return half(low & 0xffff, infinite) || half(low >> 16, infinite);
    case FloatKind::kBf16x2:
      return brain(low & 0xffff, infinite) || brain(low >> 16, infinite);
    case FloatKind::kE4m3:
      return any_byte(e4m3);
    case FloatKind::kE5m2:
      return any_byte([infinite](std::uint32_t byte) { return e5m2(byte, infinite); });
  }
  return false;
}

FloatKind float_kind(std::string_view name) {
  static constexpr std::pair<std::string_view, FloatKind> kNamed[] = {
      {"f16", FloatKind::kF16},   {"bf16", FloatKind::kBf16},   {"f32", FloatKind::kF32},
      {"f64", FloatKind::kF64},   {"f16x2", FloatKind::kF16x2}, {"bf16x2", FloatKind::kBf16x2},
      {"e4m3", FloatKind::kE4m3}, {"e5m2", FloatKind::kE5m2},   {"moved", FloatKind::kMoved}};
  for (const auto& [known, kind] : kNamed)
    if (known == name) return kind;
  return FloatKind::kNone;
}

bool is_nan(ElementType type, const std::uint8_t* at, bool infinite) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(element_bits(type) / 8));
  switch (type) {
    case ElementType::kF16:
      return half(bits, infinite);
    case ElementType::kBf16:
      return brain(bits, infinite);
    case ElementType::kF32:
    case ElementType::kTf32:
      return beyond(bits, 0x7fffffff, 0x7f800000, infinite);
    case ElementType::kE4m3:
      return e4m3(bits);
    case ElementType::kE5m2:
      return e5m2(bits, infinite);
    default:
      return false;
  }
}

FloatKind in_register(FloatKind element, std::uint32_t bytes) {
  switch (element) {
    case FloatKind::kF16:
      return bytes == 2 ? FloatKind::kF16 : bytes == 4 ? FloatKind::kF16x2 : FloatKind::kNone;
    case FloatKind::kBf16:
      return bytes == 2 ? FloatKind::kBf16 : bytes == 4 ? FloatKind::kBf16x2 : FloatKind::kNone;
    case FloatKind::kF32:
      return bytes == 4 ? FloatKind::kF32 : FloatKind::kNone;
    case FloatKind::kF64:
      return bytes == 8 ? FloatKind::kF64 : FloatKind::kNone;
    case FloatKind::kE4m3:
    case FloatKind::kE5m2:
      return element;
    default:
      return FloatKind::kNone;
  }
}

FloatKind element_of(FloatKind kind) {
  if (kind == FloatKind::kF16x2) return FloatKind::kF16;
  if (kind == FloatKind::kBf16x2) return FloatKind::kBf16;
  return kind == FloatKind::kMoved ? FloatKind::kNone : kind;
}

const FloatTypes::Tensor* FloatTypes::tensor_at(std::uint64_t address) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [address](const Tensor& one) {
    return address - one.begin < one.bytes;  // below its begin: a huge number
  });
  return found == tensors_.end() ? nullptr : &*found;
}

FloatKind FloatTypes::global(std::uint64_t address) const {
  const Tensor* const found = tensor_at(address);
  return found == nullptr ? FloatKind::kNone : found->element;
}

FloatKind FloatTypes::shared(const Cluster& cluster, std::uint64_t address) const {
  const auto found = shared_.find(window_of(cluster, address));
  const std::uint64_t at = (address & kSharedOffsetMask) / 2;
  return found == shared_.end() || at >= found->second.size() ? FloatKind::kNone : found->second[at];
}

void FloatTypes::put(const Cluster& cluster, std::uint64_t address, std::uint32_t bytes, FloatKind element) {
  std::vector<FloatKind>& window = shared_[window_of(cluster, address)];
  const std::uint64_t begin = (address & kSharedOffsetMask) / 2, end = begin + (bytes + 1) / 2;
  if (end > cluster.shared_bytes / 2 + 1) return;
  if (window.size() < end) window.resize(end, FloatKind::kNone);
  std::fill(window.begin() + static_cast<std::ptrdiff_t>(begin),
            window.begin() + static_cast<std::ptrdiff_t>(end), element);
}

}  // namespace sglab::emu
