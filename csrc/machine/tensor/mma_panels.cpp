#include "machine/tensor/mma_panels.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace sglab::emu {
namespace {

int tmem_elements_per_word(ElementType type, bool packed_fp4) {
  const int bits = element_bits(type);
  if (packed_fp4) return 8;
  return bits <= 8 ? 4 : 32 / bits;
}

// Two 2-bit positions of one four-element chunk (2:4), or of two-element halves of a chunk (1:2, 4:8 in
// pairs).
std::uint32_t metadata_nibble(const TensorMemory& tmem, MmaKind kind, TmemAddress at, std::uint32_t lane,
                              int row, int chunk) {
  if (kind == MmaKind::kF16 || kind == MmaKind::kTf32) {
    // Sixteen rows share sixteen lanes: lane bit 3 selects the half of K, the half-word the upper or lower
    // eight rows.
    const std::uint32_t source = lane + (row / 16) * 16 + row % 8 + 8 * (chunk / 4);
    const std::uint32_t word = tmem.cell(source, at.column);
    return (word >> (16 * (row / 8 % 2) + 4 * (chunk % 4))) & 0xf;
  }
  const std::uint32_t word = tmem.cell(lane + row, at.column + chunk / 8);
  return (word >> (4 * (chunk % 8))) & 0xf;
}

}  // namespace

int tmem_a_columns(ElementType type, bool packed_fp4, int k) {
  const int per_word = tmem_elements_per_word(type, packed_fp4);
  return (k + per_word - 1) / per_word;
}

void gather_tmem_a(const TensorMemory& tmem, ElementType type, bool packed_fp4, std::uint32_t lane,
                   std::uint32_t column, int rows, int k, float* out) {
  const int per_word = tmem_elements_per_word(type, packed_fp4);
  const float* table = element_bits(type) <= 8 ? byte_decode_table(type) : nullptr;
  // An unpacked e2m1 sits in bits 2-5 of its byte.
  const int byte_shift = type == ElementType::kE2m1 && !packed_fp4 ? 2 : 0;
  if (per_word == 2 && rows % 8 == 0) {
    const MmaKernels& kernels = mma_kernels();
    const auto widen = type == ElementType::kF16 ? kernels.widen_f16_pairs : kernels.widen_bf16_pairs;
    for (int i = 0; i < k; i += 2, out += 2 * rows) {
      widen(tmem.column(column + i / 2) + lane, rows, out, out + rows);
    }
    return;
  }
  for (int i = 0; i < k; ++i) {
    const std::uint32_t* words = tmem.column(column + i / per_word) + lane;
    const int shift = i % per_word * (32 / per_word);
    float* line = out + static_cast<std::int64_t>(i) * rows;
    if (table != nullptr) {
      const std::uint32_t mask = packed_fp4 ? 0xf : 0xff;
      for (int r = 0; r < rows; ++r) line[r] = table[(words[r] >> shift & mask) >> byte_shift];
    } else {
      const std::uint32_t mask = per_word == 2 ? 0xffffu : ~0u;
      for (int r = 0; r < rows; ++r) line[r] = decode_element(type, words[r] >> shift & mask);
    }
  }
}

void expand_sparse_a(const TensorMemory& tmem, const InstructionDescriptor& d, TmemAddress metadata,
                     std::uint32_t lane, int rows, std::int64_t stride, const float* stored, float* out) {
  const bool sixteen_lanes = d.kind == MmaKind::kF16 || d.kind == MmaKind::kTf32;
  if (sixteen_lanes && static_cast<std::uint32_t>(d.sparsity_selector) != (metadata.column & 1u)) {
    throw std::invalid_argument("tcgen05.mma.sp: sparsity selector " + std::to_string(d.sparsity_selector) +
                                " does not match the metadata column " + std::to_string(metadata.column) +
                                "; only a selector equal to the column's parity is implemented");
  }
  if (!sixteen_lanes && d.sparsity_selector != 0) {
    throw std::invalid_argument("tcgen05.mma.sp: the sparsity selector of this kind must be 0");
  }
  std::fill(out, out + d.k * stride, 0.0f);
  // One nibble describes two stored units: units are elements, or pairs of elements for four-bit kinds; tf32
  // has one stored element per nibble, in halves of an element.
  const int unit = is_four_bit(d.kind) ? 2 : 1;
  const bool tf32 = d.kind == MmaKind::kTf32;
  const int logical = tf32 ? 2 : 4 * unit;
  const int chunks = d.k / logical;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (int row = 0; row < rows; ++row) {
      const std::uint32_t nibble = metadata_nibble(tmem, d.kind, metadata, lane, row, chunk);
      if (tf32) {
        if (nibble != 0b1110 && nibble != 0b0100) {
          throw std::invalid_argument("tcgen05.mma.sp: metadata " + std::to_string(nibble) +
                                      " is undefined for tf32");
        }
        out[(2 * chunk + (nibble == 0b1110 ? 1 : 0)) * stride + row] = stored[chunk * stride + row];
        continue;
      }
      const int first = static_cast<int>(nibble & 3), second = static_cast<int>(nibble >> 2);
      if (first >= second) {
        throw std::invalid_argument("tcgen05.mma.sp: metadata " + std::to_string(nibble) +
                                    " does not name two rising positions");
      }
      for (int e = 0; e < unit; ++e) {
        out[(logical * chunk + first * unit + e) * stride + row] =
            stored[(2 * unit * chunk + e) * stride + row];
        out[(logical * chunk + second * unit + e) * stride + row] =
            stored[(2 * unit * chunk + unit + e) * stride + row];
      }
    }
  }
}

float scale_factor(const TensorMemory& tmem, ElementType type, TmemAddress address,
                   std::uint32_t partition_lane, int index, int block, int id) {
  const std::uint32_t word = tmem.cell(partition_lane + index % 32, address.column + index / 32);
  return byte_decode_table(type)[(word >> (8 * (block + id))) & 0xff];
}

}  // namespace sglab::emu
