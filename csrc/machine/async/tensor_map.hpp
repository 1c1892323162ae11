#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "machine/tensor/swizzle.hpp"

namespace sglab::emu {

// Values of CUtensorMapDataType.
enum class TensorMapType : std::uint8_t {
  kU8,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF64,
  kBf16,
  kF32Ftz,
  kTf32,
  kTf32Ftz,
  kB4x16,
  kB4x16P64,
  kB6x16P32,
};

enum class Interleave : std::uint8_t { kNone, k16B, k32B };

// im2col along the width alone, with a halo: .im2col::w and .im2col::w::128.
enum class Im2colWide : std::uint8_t { kNone, kW, kW128 };

std::string_view tensor_map_type_name(TensorMapType type);
// Bits of one element in global memory.
int tensor_map_element_bits(TensorMapType type);

// A tensor map, decoded. Dimension 0 is the contiguous one; sizes count elements, strides bytes.
struct TensorMap {
  static constexpr int kMaxRank = 5;

  std::uint64_t global_address = 0;
  TensorMapType type = TensorMapType::kU8;
  std::uint8_t rank = 1;
  Interleave interleave = Interleave::kNone;
  Swizzle swizzle = Swizzle::kNone;
  std::uint8_t l2_promotion = 0;  // 0, 64, 128 or 256 bytes as 0-3; kept, without effect
  bool nan_fill = false;          // out-of-bounds elements read as NaN instead of zero
  bool im2col = false;
  Im2colWide wide = Im2colWide::kNone;  // of im2col
  std::array<std::uint64_t, kMaxRank> global_dim{};
  std::array<std::uint64_t, kMaxRank> global_stride{};  // [0] is unused
  std::array<std::uint16_t, kMaxRank> box_dim{};
  std::array<std::uint8_t, kMaxRank> element_stride{};
  // im2col only (rank 3 to 5): offsets of the bounding box's corners (wide: the first alone), channels and
  // pixels per column (.im2col::w::128: always 128).
  std::array<std::int16_t, 3> lower_corner{};
  std::array<std::int16_t, 3> upper_corner{};
  std::uint16_t channels_per_pixel = 0;
  std::uint16_t pixels_per_column = 0;

  bool operator==(const TensorMap&) const = default;
};

// The 128 bytes that a kernel gets, as hardware has them: machine/async/tensor_map_bits.hpp.
struct alignas(64) TensorMapBytes {
  std::array<std::uint64_t, 16> words{};
};

// An argument that cuTensorMapEncode* refuses, or 128 bytes that are no tensor map. The message names the
// argument.
class TensorMapError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Checks what cuTensorMapEncodeTiled (or Im2col) checks, on the fields of `map`; throws TensorMapError.
void validate_tensor_map(const TensorMap& map);
TensorMapBytes encode_tensor_map(const TensorMap& map);
TensorMap decode_tensor_map(const TensorMapBytes& bytes);
// The same, unchecked: fields are replaced one by one, so a map may be inconsistent until it is used.
TensorMapBytes pack_tensor_map(const TensorMap& map);
TensorMap unpack_tensor_map(const TensorMapBytes& bytes);

// tensormap.replace's fields.
enum class TensorMapField : std::uint8_t {
  kGlobalAddress,
  kRank,
  kBoxDim,
  kGlobalDim,
  kGlobalStride,
  kElementStride,
  kElemType,
  kInterleaveLayout,
  kSwizzleMode,
  kSwizzleAtomicity,
  kFillMode,
};

// Applies tensormap.replace.tile.field: `ordinal` selects the dimension where the field has one. Throws
// TensorMapError.
void replace_tensor_map_field(TensorMapBytes& bytes, TensorMapField field, int ordinal, std::uint64_t value);

}  // namespace sglab::emu
