#include <string>

#include "machine/async/tensor_map.hpp"

namespace sglab::emu {
namespace {

[[noreturn]] void refuse_replace(const std::string& text) {
  throw TensorMapError("tensormap.replace: " + text);
}

// The instruction numbers element types otherwise than the driver does.
TensorMapType replaced_type(std::uint64_t value) {
  constexpr TensorMapType kTypes[] = {
      TensorMapType::kU8,      TensorMapType::kU16,   TensorMapType::kU32,      TensorMapType::kS32,
      TensorMapType::kU64,     TensorMapType::kS64,   TensorMapType::kF16,      TensorMapType::kF32,
      TensorMapType::kF32Ftz,  TensorMapType::kF64,   TensorMapType::kBf16,     TensorMapType::kTf32,
      TensorMapType::kTf32Ftz, TensorMapType::kB4x16, TensorMapType::kB4x16P64, TensorMapType::kB6x16P32};
  if (value >= 16) refuse_replace(".elemtype takes 0 to 15, not " + std::to_string(value));
  return kTypes[value];
}

int atomicity_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k128BAtom32B:
      return 1;
    case Swizzle::k128BAtom32BFlip8B:
      return 2;
    case Swizzle::k128BAtom64B:
      return 3;
    default:
      return 0;
  }
}

Swizzle replaced_swizzle(std::uint64_t mode, int atomicity) {
  constexpr Swizzle kPlain[] = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B};
  constexpr Swizzle kAtoms[] = {Swizzle::k128B, Swizzle::k128BAtom32B, Swizzle::k128BAtom32BFlip8B,
                                Swizzle::k128BAtom64B};
  if (mode > 3)
    refuse_replace(".swizzle_mode " + std::to_string(mode) + " is not implemented; expected 0 to 3");
  if (mode == 3) return kAtoms[atomicity];
  // Other modes have 16-byte atoms only.
  return kPlain[mode];
}

std::uint64_t swizzle_mode_of(Swizzle swizzle) {
  const int index = static_cast<int>(swizzle);
  return index > 3 ? 3 : static_cast<std::uint64_t>(index);
}

}  // namespace

void replace_tensor_map_field(TensorMapBytes& bytes, TensorMapField field, int ordinal, std::uint64_t value) {
  // A kernel may build a map from 128 zero bytes, field by field.
  TensorMap map = bytes.words == TensorMapBytes{}.words ? TensorMap{} : unpack_tensor_map(bytes);
  const bool indexed = field >= TensorMapField::kBoxDim && field <= TensorMapField::kElementStride;
  const int last = field == TensorMapField::kGlobalStride ? TensorMap::kMaxRank - 2 : TensorMap::kMaxRank - 1;
  if (indexed && (ordinal < 0 || ordinal > last)) {
    refuse_replace("ordinal " + std::to_string(ordinal) + " is outside 0 to " + std::to_string(last));
  }
  const std::uint32_t word = static_cast<std::uint32_t>(value);
  switch (field) {
    case TensorMapField::kGlobalAddress:
      map.global_address = value;
      break;
    case TensorMapField::kRank:
      if (word > 4) refuse_replace(".rank takes the rank less one, 0 to 4, not " + std::to_string(word));
      map.rank = static_cast<std::uint8_t>(word + 1);
      break;
    case TensorMapField::kBoxDim:
      map.box_dim[ordinal] = static_cast<std::uint16_t>(word);
      break;
    case TensorMapField::kGlobalDim:
      map.global_dim[ordinal] = word;
      break;
    case TensorMapField::kGlobalStride:
      map.global_stride[ordinal + 1] = value;
      break;
    case TensorMapField::kElementStride:
      map.element_stride[ordinal] = static_cast<std::uint8_t>(word);
      break;
    case TensorMapField::kElemType:
      map.type = replaced_type(value);
      break;
    case TensorMapField::kInterleaveLayout:
      if (value > 2) refuse_replace(".interleave_layout takes 0 to 2");
      map.interleave = static_cast<Interleave>(value);
      break;
    case TensorMapField::kSwizzleMode:
      map.swizzle = replaced_swizzle(value, atomicity_of(map.swizzle));
      break;
    case TensorMapField::kSwizzleAtomicity:
      if (value > 3) refuse_replace(".swizzle_atomicity takes 0 to 3");
      map.swizzle = replaced_swizzle(swizzle_mode_of(map.swizzle), static_cast<int>(value));
      break;
    case TensorMapField::kFillMode:
      map.nan_fill = value == 1;
      break;
  }
  bytes = pack_tensor_map(map);
}

}  // namespace sglab::emu
