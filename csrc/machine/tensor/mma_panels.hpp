#pragma once

#include <cstdint>
#include <span>

#include "machine/tensor/tcgen05_mma.hpp"

namespace sglab::emu {

// Fills out[k * rows + i] with the stored elements of A in lanes [lane, lane + rows) of tensor memory, K
// elements packed into consecutive columns from `column` on.
void gather_tmem_a(const TensorMemory& tmem, ElementType type, bool packed_fp4, std::uint32_t lane,
                   std::uint32_t column, int rows, int k, float* out);
int tmem_a_columns(ElementType type, bool packed_fp4, int k);

// Spreads the stored half of a structured-sparse A (stored[k' * stride + i]) over its K logical positions
// (out[k * stride + i], the rest zero), by the metadata in lanes [lane, lane + rows).
void expand_sparse_a(const TensorMemory& tmem, const InstructionDescriptor& descriptor, TmemAddress metadata,
                     std::uint32_t lane, int rows, std::int64_t stride, const float* stored, float* out);

// The scale factor of row (or column) `index` and K block `block`: byte `block` + `id` of the word at lane
// `index` % 32 of the 32-lane partition that begins at `partition_lane`, `index` / 32 columns on.
float scale_factor(const TensorMemory& tmem, ElementType type, TmemAddress address,
                   std::uint32_t partition_lane, int index, int block, int id);

}  // namespace sglab::emu
