#include "machine/async/tensor_map.hpp"

#include <string>

namespace sglab::emu {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw TensorMapError("tensor map: " + text);
}

std::string dim(const char* name, int i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

bool is_padded(TensorMapType type) {
  return type == TensorMapType::kB4x16P64 || type == TensorMapType::kB6x16P32;
}

bool is_float(TensorMapType type) {
  return type >= TensorMapType::kF16 && type <= TensorMapType::kTf32Ftz;
}

void check_dims(const TensorMap& map) {
  for (int i = 0; i < map.rank; ++i) {
    if (map.global_dim[i] == 0 || map.global_dim[i] > (1ull << 32)) {
      refuse(dim("globalDim", i) + " = " + std::to_string(map.global_dim[i]) + "; expected 1 to 2^32");
    }
  }
  if (is_padded(map.type) && map.global_dim[0] % 128 != 0)
    refuse("globalDim[0] must be a multiple of 128 for this type");
  if (map.type == TensorMapType::kB4x16 && map.global_dim[0] % 2 != 0)
    refuse("globalDim[0] must be even for 16U4_ALIGN8B");
}

void check_strides(const TensorMap& map) {
  const std::uint64_t unit = map.interleave == Interleave::k32B || is_padded(map.type) ? 32 : 16;
  if (map.global_address % unit != 0) {
    refuse("globalAddress must be aligned to " + std::to_string(unit) + " bytes");
  }
  for (int i = 1; i < map.rank; ++i) {
    if (map.global_stride[i] % unit != 0 || map.global_stride[i] >= (1ull << 40)) {
      refuse(dim("globalStrides", i - 1) + " = " + std::to_string(map.global_stride[i]) +
             " bytes; expected a multiple of " + std::to_string(unit) + " below 2^40");
    }
  }
}

void check_box(const TensorMap& map) {
  for (int i = 0; i < map.rank; ++i) {
    if (map.element_stride[i] == 0 || map.element_stride[i] > 8) {
      refuse(dim("elementStrides", i) + " = " + std::to_string(map.element_stride[i]) + "; expected 1 to 8");
    }
    if (!map.im2col && (map.box_dim[i] == 0 || map.box_dim[i] > 256)) {
      refuse(dim("boxDim", i) + " = " + std::to_string(map.box_dim[i]) + "; expected 1 to 256");
    }
  }
  const int inner = map.im2col ? map.channels_per_pixel : map.box_dim[0];
  if (is_padded(map.type)) {
    if (inner != 128) refuse("boxDim[0] must be 128 for this type");
    return;
  }
  const std::uint32_t bytes = static_cast<std::uint32_t>(inner) * tensor_map_element_bits(map.type) / 8;
  if (map.interleave != Interleave::kNone) return;
  if (bytes == 0 || bytes % 16 != 0) {
    refuse("boxDim[0] spans " + std::to_string(bytes) + " bytes; expected a multiple of 16");
  }
  if (map.swizzle != Swizzle::kNone && bytes > swizzle_span(map.swizzle)) {
    refuse("boxDim[0] spans " + std::to_string(bytes) + " bytes; swizzle " +
           std::string(swizzle_name(map.swizzle)) + " allows " + std::to_string(swizzle_span(map.swizzle)));
  }
}

void check_swizzle(const TensorMap& map) {
  if (map.interleave == Interleave::k32B && map.swizzle != Swizzle::k32B) {
    refuse("interleave 32B needs swizzle 32B");
  }
  if (map.interleave != Interleave::kNone && map.rank < 3) refuse("interleave needs a rank of at least 3");
  if (is_padded(map.type)) {
    const bool six = map.type == TensorMapType::kB6x16P32;
    const bool known = map.swizzle == Swizzle::kNone || map.swizzle == Swizzle::k128B ||
                       map.swizzle == Swizzle::k128BAtom32B || (six && map.swizzle == Swizzle::k128BAtom64B);
    if (!known) refuse("this type does not go with swizzle " + std::string(swizzle_name(map.swizzle)));
  }
  if (map.nan_fill && !is_float(map.type)) refuse("NaN fill needs a floating-point type");
}

void check_wide(const TensorMap& map) {
  if (map.wide > Im2colWide::kW128) refuse("an im2col mode of its own");
  if (map.interleave != Interleave::kNone) refuse("im2col::w does not go with interleave");
  const bool known =
      map.swizzle == Swizzle::k64B || map.swizzle == Swizzle::k128B || map.swizzle == Swizzle::k128BAtom32B;
  if (!known) refuse("im2col::w needs swizzle 64B, 128B or 128B_ATOM_32B");
  const auto width = static_cast<std::int64_t>(map.global_dim[1]);
  if (map.lower_corner[0] > width - 1 + map.upper_corner[0])
    refuse("the box from pixelBoxLowerCornerWidth to pixelBoxUpperCornerWidth is empty");
}

void check_im2col(const TensorMap& map) {
  if (map.rank < 3) refuse("im2col needs a rank of 3 to 5");
  if (map.channels_per_pixel == 0 || map.channels_per_pixel > 256)
    refuse("channelsPerPixel must be 1 to 256");
  if (map.wide != Im2colWide::kW128 && (map.pixels_per_column == 0 || map.pixels_per_column > 1024))
    refuse("pixelsPerColumn must be 1 to 1024");
  if (map.wide != Im2colWide::kNone) return check_wide(map);
  const int limit = map.rank == 3 ? 32768 : map.rank == 4 ? 128 : 16;
  for (int i = 0; i < map.rank - 2; ++i) {
    for (const int corner : {int{map.lower_corner[i]}, int{map.upper_corner[i]}}) {
      if (corner < -limit || corner >= limit)
        refuse(dim("pixelBoxCorner", i) + " is out of range for this rank");
    }
  }
}

}  // namespace

std::string_view tensor_map_type_name(TensorMapType type) {
  constexpr std::string_view kNames[] = {"u8",       "u16",   "u32",       "s32",      "u64",     "s64",
                                         "f16",      "f32",   "f64",       "bf16",     "f32_ftz", "tf32",
                                         "tf32_ftz", "b4x16", "b4x16_p64", "b6x16_p32"};
  return kNames[static_cast<int>(type)];
}

int tensor_map_element_bits(TensorMapType type) {
  constexpr std::uint8_t kBits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
  return kBits[static_cast<int>(type)];
}

void validate_tensor_map(const TensorMap& map) {
  if (map.rank < 1 || map.rank > TensorMap::kMaxRank)
    refuse("tensorRank = " + std::to_string(map.rank) + "; expected 1 to 5");
  // Any 128 bytes may pose as a map.
  if (map.interleave > Interleave::k32B) refuse("an interleave layout of its own");
  if (map.swizzle > Swizzle::k128BAtom64B) refuse("a swizzle mode of its own");
  check_dims(map);
  check_strides(map);
  check_swizzle(map);
  if (map.im2col) check_im2col(map);
  check_box(map);
}

TensorMapBytes encode_tensor_map(const TensorMap& map) {
  validate_tensor_map(map);
  return pack_tensor_map(map);
}

TensorMap decode_tensor_map(const TensorMapBytes& bytes) {
  const TensorMap map = unpack_tensor_map(bytes);
  validate_tensor_map(map);
  return map;
}

}  // namespace sglab::emu
