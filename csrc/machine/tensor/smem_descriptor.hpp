#pragma once

#include <cstdint>

#include "machine/tensor/swizzle.hpp"

namespace sglab::emu {

// Which index of an operand runs along contiguous bytes: K, or the operand's own M (of A) or N (of B).
enum class Major : std::uint8_t { kK, kMn };

// A matrix operand in shared memory, decoded from the 64-bit descriptor of wgmma or tcgen05. Offsets in
// bytes.
struct SmemDescriptor {
  std::uint32_t start = 0;
  std::uint32_t leading_offset = 0;
  std::uint32_t stride_offset = 0;
  std::uint32_t base_offset = 0;     // 0-7: row of the swizzle pattern at which `start`'s pattern begins
  bool leading_is_absolute = false;  // tcgen05 on sm_103a only
  Swizzle swizzle = Swizzle::kNone;
  bool operator==(const SmemDescriptor&) const = default;
};

// Throws std::invalid_argument on reserved layouts, a wrong version field or non-zero reserved bits.
SmemDescriptor decode_tcgen05_descriptor(std::uint64_t bits);
SmemDescriptor decode_wgmma_descriptor(std::uint64_t bits);

// Operands are made of 16-byte chunks. Address, inside the CTA's shared window, of the chunk that holds
//   K-major:  row `row`, bytes [16*chunk, 16*chunk + 16) along K;
//   MN-major: K index `row`, bytes [16*chunk, 16*chunk + 16) along M or N.
// The canonical layouts of the PTX ISA (and of CuTe's make_gmma_desc / make_umma_desc), then the swizzle.
class ChunkAddress {
 public:
  ChunkAddress(const SmemDescriptor& descriptor, Major major);

  std::uint32_t operator()(std::uint32_t row, std::uint32_t chunk) const {
    const std::uint32_t linear =
        start_ + (row >> row_bits_) * row_group_ + (row & ((1u << row_bits_) - 1)) * row_pitch_ +
        (chunk >> chunk_bits_) * chunk_group_ + (chunk & ((1u << chunk_bits_) - 1)) * 16 - phase_;
    return (linear ^ ((linear >> pattern_.shift) & pattern_.mask)) + phase_;
  }

 private:
  std::uint32_t start_;
  std::uint32_t row_bits_;     // log2 of the rows of one swizzle atom
  std::uint32_t row_pitch_;    // bytes between rows of an atom
  std::uint32_t row_group_;    // bytes between atoms along the rows
  std::uint32_t chunk_bits_;   // log2 of the chunks in one row of an atom
  std::uint32_t chunk_group_;  // bytes between atoms along the chunks
  std::uint32_t phase_;        // where the pattern starts when it does not start on its own boundary
  SwizzlePattern pattern_;
};

}  // namespace sglab::emu
