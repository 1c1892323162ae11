#include <string>

#include "machine/async/tensor_map_bits.hpp"

namespace sglab::emu {
namespace {

using namespace map_bits;

[[noreturn]] void refuse_replace(const std::string& text) {
  throw TensorMapError("tensormap.replace: " + text);
}

// The instruction's numbers of element types.
TensorMapType replaced_type(std::uint64_t value) {
  constexpr TensorMapType kTypes[] = {
      TensorMapType::kU8,      TensorMapType::kU16,   TensorMapType::kU32,      TensorMapType::kS32,
      TensorMapType::kU64,     TensorMapType::kS64,   TensorMapType::kF16,      TensorMapType::kF32,
      TensorMapType::kF32Ftz,  TensorMapType::kF64,   TensorMapType::kBf16,     TensorMapType::kTf32,
      TensorMapType::kTf32Ftz, TensorMapType::kB4x16, TensorMapType::kB4x16P64, TensorMapType::kB6x16P32};
  if (value >= 16) refuse_replace(".elemtype takes 0 to 15, not " + std::to_string(value));
  return kTypes[value];
}

}  // namespace

// What ptxas makes of each form: the field's bits change and no others. So a size of 0 becomes the largest
// there is, as on hardware, and a map of tf32 stays one when its type becomes f32.
void replace_tensor_map_field(TensorMapBytes& bytes, TensorMapField field, int ordinal, std::uint64_t value) {
  // A kernel may build a map from 128 zero bytes, field by field.
  if (bytes.words == TensorMapBytes{}.words) set(bytes, kKind, kTiled);
  if (const std::uint64_t kind = get(bytes, kKind); kind != kTiled && kind != kIm2col)
    throw TensorMapError("tensor map: these 128 bytes are not a tensor map");
  const bool indexed = field >= TensorMapField::kBoxDim && field <= TensorMapField::kElementStride;
  const int last = field == TensorMapField::kGlobalStride ? TensorMap::kMaxRank - 2 : TensorMap::kMaxRank - 1;
  if (indexed && (ordinal < 0 || ordinal > last)) {
    refuse_replace("ordinal " + std::to_string(ordinal) + " is outside 0 to " + std::to_string(last));
  }
  const std::uint32_t word = static_cast<std::uint32_t>(value);
  switch (field) {
    case TensorMapField::kGlobalAddress:
      return set(bytes, kAddress, value);
    case TensorMapField::kRank:
      if (word > 4) refuse_replace(".rank takes the rank less one, 0 to 4, not " + std::to_string(word));
      return set(bytes, kRank, word);
    case TensorMapField::kBoxDim:
      return set(bytes, box(ordinal), word - 1);
    case TensorMapField::kGlobalDim:
      return set(bytes, dim(ordinal), word - 1);
    case TensorMapField::kGlobalStride:
      return set_stride(bytes, ordinal + 1, value);
    case TensorMapField::kElementStride:
      return set(bytes, element_stride(ordinal), word - 1);
    case TensorMapField::kElemType:
      return set_type(bytes, replaced_type(value));
    case TensorMapField::kInterleaveLayout:
      if (value > 2) refuse_replace(".interleave_layout takes 0 to 2");
      return set(bytes, kInterleave, value);
    case TensorMapField::kSwizzleMode:
      if (value > 3)
        refuse_replace(".swizzle_mode " + std::to_string(value) + " is not implemented; expected 0 to 3");
      set(bytes, kSwizzle96, 0);
      return set(bytes, kSwizzle, value);
    case TensorMapField::kSwizzleAtomicity:
      if (value > 3) refuse_replace(".swizzle_atomicity takes 0 to 3");
      return set(bytes, kAtomicity, value);
    case TensorMapField::kFillMode:
      return set(bytes, kNanFill, value == 1);
  }
}

}  // namespace sglab::emu
