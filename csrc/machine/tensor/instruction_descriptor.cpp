#include "machine/tensor/instruction_descriptor.hpp"

#include <stdexcept>

namespace sglab::emu {
namespace {

std::uint32_t field(std::uint32_t bits, int low, int width) {
  return (bits >> low) & ((1u << width) - 1);
}

[[noreturn]] void refuse(MmaKind kind, const std::string& what) {
  throw std::invalid_argument("instruction descriptor of kind::" + std::string(mma_kind_name(kind)) + ": " +
                              what);
}

ElementType operand_type(MmaKind kind, std::uint32_t code, const char* operand) {
  switch (kind) {
    case MmaKind::kF16:
      if (code == 0) return ElementType::kF16;
      if (code == 1) return ElementType::kBf16;
      break;
    case MmaKind::kTf32:
      if (code == 2) return ElementType::kTf32;
      break;
    case MmaKind::kI8:
      if (code == 0) return ElementType::kU8;
      if (code == 1) return ElementType::kS8;
      break;
    case MmaKind::kF8f6f4:
    case MmaKind::kMxf8f6f4:
      if (code == 0) return ElementType::kE4m3;
      if (code == 1) return ElementType::kE5m2;
      if (code == 3) return ElementType::kE2m3;
      if (code == 4) return ElementType::kE3m2;
      if (code == 5) return ElementType::kE2m1;
      break;
    case MmaKind::kMxf4:
    case MmaKind::kMxf4nvf4:
      if (code == 1) return ElementType::kE2m1;
      break;
  }
  refuse(kind, std::string(operand) + " type " + std::to_string(code) + " is not one of this kind");
}

ElementType accumulator_type(MmaKind kind, std::uint32_t code) {
  const bool half = kind == MmaKind::kF16 || kind == MmaKind::kF8f6f4;
  if (code == 1 && kind != MmaKind::kI8) return ElementType::kF32;
  if (code == 0 && half) return ElementType::kF16;
  if (code == 2 && kind == MmaKind::kI8) return ElementType::kS32;
  refuse(kind, "matrix D type " + std::to_string(code) + " is not one of this kind");
}

int dense_k(MmaKind kind) {
  switch (kind) {
    case MmaKind::kF16:
      return 16;
    case MmaKind::kTf32:
      return 8;
    case MmaKind::kMxf4:
    case MmaKind::kMxf4nvf4:
      return 64;
    default:
      return 32;
  }
}

void decode_block_scaled(InstructionDescriptor& d, std::uint32_t bits) {
  d.d_type = ElementType::kF32;
  d.b_scale_id = static_cast<int>(field(bits, 4, 2));
  d.a_scale_id = static_cast<int>(field(bits, 29, 2));
  const bool ue8m0 = field(bits, 23, 1) != 0;
  if (!ue8m0 && d.kind != MmaKind::kMxf4nvf4) refuse(d.kind, "scales must be ue8m0 (bit 23)");
  d.scale_type = ue8m0 ? ElementType::kUe8m0 : ElementType::kUe4m3;
  if (is_four_bit(d.kind)) {
    if (field(bits, 31, 1)) refuse(d.kind, "K = 96 (bit 31) exists on sm_103a only and is not implemented");
    if (d.a_major != Major::kK || d.b_major != Major::kK) refuse(d.kind, "transposed operands do not exist");
    if ((d.a_scale_id | d.b_scale_id) & 1) refuse(d.kind, "scale factor ids must be 0 or 2");
  }
}

void decode_plain(InstructionDescriptor& d, std::uint32_t bits) {
  d.d_type = accumulator_type(d.kind, field(bits, 4, 2));
  d.sparsity_selector = static_cast<int>(field(bits, 0, 2));
  d.saturate = field(bits, 3, 1) != 0;
  const std::uint32_t shift = field(bits, 30, 2);
  d.max_shift = shift == 0 ? 0 : 4 << shift;
  if (d.saturate && d.kind != MmaKind::kI8) refuse(d.kind, "saturation (bit 3) exists for kind::i8 only");
  if ((d.negate_a || d.negate_b) && d.kind == MmaKind::kI8) refuse(d.kind, "operands cannot be negated");
}

std::string one_of(const char* name, int value, const std::string& allowed) {
  return std::string(name) + " = " + std::to_string(value) + "; expected " + allowed;
}

}  // namespace

std::string_view mma_kind_name(MmaKind kind) {
  constexpr std::string_view kNames[] = {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"};
  return kNames[static_cast<int>(kind)];
}

InstructionDescriptor decode_instruction_descriptor(MmaKind kind, std::uint32_t bits) {
  InstructionDescriptor d;
  d.kind = kind;
  d.sparse = field(bits, 2, 1) != 0;
  d.a_type = operand_type(kind, field(bits, 7, 3), "matrix A");
  d.b_type = operand_type(kind, field(bits, 10, is_four_bit(kind) ? 2 : 3), "matrix B");
  d.negate_a = field(bits, 13, 1) != 0;
  d.negate_b = field(bits, 14, 1) != 0;
  d.a_major = field(bits, 15, 1) ? Major::kMn : Major::kK;
  d.b_major = field(bits, 16, 1) ? Major::kMn : Major::kK;
  d.n = static_cast<int>(field(bits, 17, 6)) << 3;
  d.m = static_cast<int>(field(bits, 24, 5)) << 4;
  d.k = dense_k(kind) * (d.sparse ? 2 : 1);
  if (is_block_scaled(kind)) {
    decode_block_scaled(d, bits);
  } else {
    decode_plain(d, bits);
  }
  const auto narrow = [](ElementType type) { return element_bits(type) < 8; };
  if ((d.a_major == Major::kMn && narrow(d.a_type)) || (d.b_major == Major::kMn && narrow(d.b_type))) {
    refuse(kind, "operands of fewer than 8 bits cannot be transposed");
  }
  return d;
}

std::string check_mma_shape(const InstructionDescriptor& d, int cta_group, bool weight_stationary) {
  const int m = d.m, n = d.n;
  if (weight_stationary) {
    if (cta_group != 1) return ".ws exists with cta_group::1 only";
    if (is_block_scaled(d.kind)) return ".ws does not exist for block-scaled kinds";
    if (m != 32 && m != 64 && m != 128) return one_of("M", m, "32, 64 or 128");
    if (n != 64 && n != 128 && (n != 256 || d.sparse))
      return one_of("N", n, d.sparse ? "64 or 128" : "64, 128 or 256");
    return {};
  }
  if (is_block_scaled(d.kind)) {
    if (cta_group == 1 && m != 128) return one_of("M", m, "128");
    if (cta_group == 2 && m != 256 && (m != 128 || d.sparse))
      return one_of("M", m, d.sparse ? "256" : "128 or 256");
  } else if (cta_group == 1) {
    if (m != 64 && m != 128) return one_of("M", m, "64 or 128");
  } else if (m != 128 && m != 256) {
    return one_of("M", m, "128 or 256");
  }
  if (n < 8 || n > 256) return one_of("N", n, "8 to 256");
  int step = cta_group == 2 ? 16 : 8;
  if (d.kind == MmaKind::kI8) step = cta_group == 2 ? 32 : n > 32 ? 16 : 8;
  if (d.b_major == Major::kMn && element_bits(d.b_type) == 8) step = cta_group == 2 ? 32 : 16;
  if (n % step != 0) return one_of("N", n, "a multiple of " + std::to_string(step));
  return {};
}

}  // namespace sglab::emu
