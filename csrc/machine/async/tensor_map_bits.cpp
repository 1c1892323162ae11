#include "machine/async/tensor_map_bits.hpp"

#include <algorithm>
#include <iterator>

namespace sglab::emu {
namespace {

using namespace map_bits;

constexpr TensorMapType kTypes[] = {TensorMapType::kU8,       TensorMapType::kU16,     TensorMapType::kU32,
                                    TensorMapType::kS32,      TensorMapType::kU64,     TensorMapType::kS64,
                                    TensorMapType::kF16,      TensorMapType::kF32,     TensorMapType::kF32Ftz,
                                    TensorMapType::kF64,      TensorMapType::kBf16,    TensorMapType::kB4x16,
                                    TensorMapType::kB4x16P64, TensorMapType::kB6x16P32};

constexpr double kLargeBytes = 128 * 1024;

struct SwizzleCode {
  std::uint64_t mode, atomicity;
};

// By Swizzle.
constexpr SwizzleCode kSwizzles[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {3, 1}, {3, 2}, {3, 3}};

// By how far its last element's end is from the first one's begin, as CUTLASS counts. Doubles do not
// overflow.
bool is_large(const TensorMap& map) {
  double bytes = static_cast<double>(map.global_dim[0]) * tensor_map_element_bits(map.type) / 8;
  for (int i = 1; i < map.rank; ++i)
    bytes += static_cast<double>(map.global_dim[i] - 1) * static_cast<double>(map.global_stride[i]);
  return bytes >= kLargeBytes;
}

TensorMapType type_of(const TensorMapBytes& bytes) {
  const std::uint64_t number = get(bytes, kType);
  if (number >= std::size(kTypes)) throw TensorMapError("tensor map: an element type of its own");
  const TensorMapType type = kTypes[number];
  if (get(bytes, kTf32) == 0) return type;
  if (type == TensorMapType::kF32) return TensorMapType::kTf32;
  if (type == TensorMapType::kF32Ftz) return TensorMapType::kTf32Ftz;
  return type;
}

Swizzle swizzle_of(const TensorMapBytes& bytes) {
  const std::uint64_t mode = get(bytes, kSwizzle), atomicity = get(bytes, kAtomicity) & 3;
  if (get(bytes, kSwizzle96) != 0) throw TensorMapError("tensor map: a swizzle mode of its own");
  // Other modes have 16-byte atoms only.
  if (mode < 3 || atomicity == 0) return static_cast<Swizzle>(mode);
  return static_cast<Swizzle>(static_cast<std::uint64_t>(Swizzle::k128B) + atomicity);
}

// Dimensions with corners.
int corners_of(const TensorMap& map) {
  return map.wide == Im2colWide::kNone ? map.rank - 2 : 1;
}

std::int16_t signed_corner(const TensorMapBytes& bytes, Bits at) {
  const std::uint64_t sign = 1ull << (at.count - 1);
  return static_cast<std::int16_t>(static_cast<std::int64_t>(get(bytes, at) ^ sign) -
                                   static_cast<std::int64_t>(sign));
}

}  // namespace

void map_bits::set_type(TensorMapBytes& bytes, TensorMapType type) {
  const bool tf32 = type == TensorMapType::kTf32 || type == TensorMapType::kTf32Ftz;
  if (type == TensorMapType::kTf32) type = TensorMapType::kF32;
  if (type == TensorMapType::kTf32Ftz) type = TensorMapType::kF32Ftz;
  set(bytes, kType,
      static_cast<std::uint64_t>(std::find(std::begin(kTypes), std::end(kTypes), type) - kTypes));
  if (tf32) set(bytes, kTf32, 1);
}

TensorMapBytes pack_tensor_map(const TensorMap& map) {
  TensorMapBytes bytes;
  set(bytes, kAddress, map.global_address);
  set(bytes, kKind, map.im2col ? kIm2col : kTiled);
  set(bytes, kRank, map.rank - 1u);
  set_type(bytes, map.type);
  set(bytes, kInterleave, static_cast<std::uint64_t>(map.interleave));
  set(bytes, kSwizzle, kSwizzles[static_cast<int>(map.swizzle)].mode);
  set(bytes, kAtomicity, kSwizzles[static_cast<int>(map.swizzle)].atomicity);
  set(bytes, kNanFill, map.nan_fill);
  set(bytes, kL2Promotion, map.l2_promotion);
  set(bytes, kLarge, is_large(map));
  for (int i = 0; i < map.rank; ++i) {
    set(bytes, dim(i), map.global_dim[i] - 1);
    if (i > 0) set_stride(bytes, i, map.global_stride[i]);
    set(bytes, element_stride(i), map.element_stride[i] - 1u);
    if (!map.im2col) set(bytes, box(i), map.box_dim[i] - 1u);
  }
  if (!map.im2col) return bytes;
  set(bytes, box(0), map.channels_per_pixel - 1u);
  set(bytes, kPixels, map.pixels_per_column - 1u);
  set(bytes, kWide, static_cast<std::uint64_t>(map.wide));
  const int dimensions = corners_of(map);
  for (int i = 0; i < dimensions; ++i) {
    set(bytes, corner(dimensions, i, false), static_cast<std::uint64_t>(map.lower_corner[i]));
    set(bytes, corner(dimensions, i, true), static_cast<std::uint64_t>(map.upper_corner[i]));
  }
  return bytes;
}

TensorMap unpack_tensor_map(const TensorMapBytes& bytes) {
  const std::uint64_t kind = get(bytes, kKind), rank = get(bytes, kRank) + 1;
  const bool known = (kind == kTiled || kind == kIm2col) && get(bytes, kUnknown) == 0;
  if (!known || rank > TensorMap::kMaxRank)
    throw TensorMapError("tensor map: these 128 bytes are not a tensor map");
  TensorMap map;
  map.global_address = get(bytes, kAddress);
  map.type = type_of(bytes);
  map.rank = static_cast<std::uint8_t>(rank);
  map.interleave = static_cast<Interleave>(get(bytes, kInterleave));
  map.swizzle = swizzle_of(bytes);
  map.l2_promotion = static_cast<std::uint8_t>(get(bytes, kL2Promotion));
  map.nan_fill = get(bytes, kNanFill) != 0;
  map.im2col = kind == kIm2col;
  for (int i = 0; i < map.rank; ++i) {
    map.global_dim[i] = get(bytes, dim(i)) + 1;
    if (i > 0) map.global_stride[i] = (get(bytes, stride_low(i)) | get(bytes, stride_high(i)) << 32) << 4;
    map.element_stride[i] = static_cast<std::uint8_t>(get(bytes, element_stride(i)) + 1);
    if (!map.im2col) map.box_dim[i] = static_cast<std::uint16_t>(get(bytes, box(i)) + 1);
  }
  if (!map.im2col) return map;
  map.channels_per_pixel = static_cast<std::uint16_t>(get(bytes, box(0)) + 1);
  map.pixels_per_column = static_cast<std::uint16_t>(get(bytes, kPixels) + 1);
  map.wide = static_cast<Im2colWide>(get(bytes, kWide));
  const int dimensions = corners_of(map);
  for (int i = 0; i < dimensions; ++i) {
    map.lower_corner[i] = signed_corner(bytes, corner(dimensions, i, false));
    map.upper_corner[i] = signed_corner(bytes, corner(dimensions, i, true));
  }
  return map;
}

}  // namespace sglab::emu
