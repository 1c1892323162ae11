#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "machine/tensor/element.hpp"
#include "machine/tensor/smem_descriptor.hpp"

namespace sglab::emu {

// tcgen05.mma's .kind qualifier.
enum class MmaKind : std::uint8_t { kF16, kTf32, kF8f6f4, kI8, kMxf8f6f4, kMxf4, kMxf4nvf4 };

std::string_view mma_kind_name(MmaKind kind);
constexpr bool is_block_scaled(MmaKind kind) {
  return kind >= MmaKind::kMxf8f6f4;
}
constexpr bool is_four_bit(MmaKind kind) {
  return kind >= MmaKind::kMxf4;
}

// tcgen05.mma's 32-bit instruction descriptor, decoded.
struct InstructionDescriptor {
  MmaKind kind = MmaKind::kF16;
  ElementType a_type = ElementType::kF16;
  ElementType b_type = ElementType::kF16;
  ElementType d_type = ElementType::kF32;
  int m = 0;
  int n = 0;
  int k = 0;  // logical K: twice the stored K of A when sparse
  Major a_major = Major::kK;
  Major b_major = Major::kK;
  bool negate_a = false;
  bool negate_b = false;
  bool saturate = false;  // kind::i8
  bool sparse = false;
  int sparsity_selector = 0;
  ElementType scale_type = ElementType::kUe8m0;  // block-scaled kinds
  int a_scale_id = 0;
  int b_scale_id = 0;
  int max_shift = 0;  // .ws: 0, 8, 16 or 32

  bool operator==(const InstructionDescriptor&) const = default;
};

// Throws std::invalid_argument on encodings that the PTX ISA reserves for this kind.
InstructionDescriptor decode_instruction_descriptor(MmaKind kind, std::uint32_t bits);

// Empty when the shape is one that tcgen05.mma has for this kind; otherwise says what is wrong and what is
// allowed.
std::string check_mma_shape(const InstructionDescriptor& descriptor, int cta_group, bool weight_stationary);

}  // namespace sglab::emu
