#include "machine/tensor/smem_descriptor.hpp"

#include <bit>
#include <stdexcept>
#include <string>

namespace sglab::emu {
namespace {

std::uint32_t field(std::uint64_t bits, int low, int width) {
  return static_cast<std::uint32_t>((bits >> low) & ((1ull << width) - 1));
}

SmemDescriptor decode_common(std::uint64_t bits) {
  SmemDescriptor descriptor;
  descriptor.start = field(bits, 0, 14) << 4;
  descriptor.leading_offset = field(bits, 16, 14) << 4;
  descriptor.stride_offset = field(bits, 32, 14) << 4;
  descriptor.base_offset = field(bits, 49, 3);
  return descriptor;
}

}  // namespace

SmemDescriptor decode_tcgen05_descriptor(std::uint64_t bits) {
  SmemDescriptor descriptor = decode_common(bits);
  if (field(bits, 46, 3) != 1) {
    throw std::invalid_argument("tcgen05 shared-memory descriptor: bits 46-48 must be 0b001, found " +
                                std::to_string(field(bits, 46, 3)));
  }
  descriptor.leading_is_absolute = field(bits, 52, 1) != 0;
  const std::uint32_t layout = field(bits, 61, 3);
  switch (layout) {
    case 0:
      descriptor.swizzle = Swizzle::kNone;
      break;
    case 1:
      descriptor.swizzle = Swizzle::k128BAtom32B;
      break;
    case 2:
      descriptor.swizzle = Swizzle::k128B;
      break;
    case 4:
      descriptor.swizzle = Swizzle::k64B;
      break;
    case 6:
      descriptor.swizzle = Swizzle::k32B;
      break;
    default:
      throw std::invalid_argument("tcgen05 shared-memory descriptor: layout (bits 61-63) " +
                                  std::to_string(layout) + " is reserved; expected 0, 1, 2, 4 or 6");
  }
  return descriptor;
}

SmemDescriptor decode_wgmma_descriptor(std::uint64_t bits) {
  SmemDescriptor descriptor = decode_common(bits);
  constexpr Swizzle kLayouts[] = {Swizzle::kNone, Swizzle::k128B, Swizzle::k64B, Swizzle::k32B};
  descriptor.swizzle = kLayouts[field(bits, 62, 2)];
  return descriptor;
}

ChunkAddress::ChunkAddress(const SmemDescriptor& descriptor, Major major)
    : start_(descriptor.start), pattern_(swizzle_pattern(descriptor.swizzle)) {
  if (descriptor.leading_is_absolute) {
    throw std::invalid_argument(
        "shared-memory descriptor: absolute leading-dimension addresses (bit 52, sm_103a) are not "
        "implemented");
  }
  const Swizzle swizzle = descriptor.swizzle;
  const bool plain = swizzle == Swizzle::kNone;
  const std::uint32_t span = swizzle_span(swizzle);
  phase_ = (descriptor.base_offset & 7u) << 7;
  row_pitch_ = span;
  chunk_bits_ = static_cast<std::uint32_t>(std::countr_zero(span / 16));
  row_bits_ = 3;
  if (major == Major::kK) {
    if (swizzle == Swizzle::k128BAtom32B) {
      throw std::invalid_argument(
          "shared-memory descriptor: 128B swizzle with 32B atoms needs an MN-major operand");
    }
    row_group_ = descriptor.stride_offset;
    // Swizzled rows hold the whole K of one instruction, so the leading offset is not used (assumed one).
    chunk_group_ = plain ? descriptor.leading_offset : span;
  } else if (plain) {
    row_group_ = descriptor.leading_offset;
    chunk_group_ = descriptor.stride_offset;
  } else {
    if (swizzle == Swizzle::k128BAtom32B) row_bits_ = 2;
    row_group_ = descriptor.stride_offset;
    chunk_group_ = descriptor.leading_offset;
  }
}

}  // namespace sglab::emu
