#pragma once

#include <cstdint>

#include "machine/tensor/element.hpp"

namespace sglab::emu {

// How a sparse A (half of whose elements are stored) says where they belong: the metadata registers of a
// warp's lanes, two bits per stored element (or pair of four-bit ones; four bits per tf32).
struct SparseLayout {
  int k;         // elements along K, stored or not
  int selector;  // which lanes of each four have metadata that counts, where not all do
  bool ordered;  // positions must rise
};

// How many selectors there are for this type and K.
int sparsity_selectors(ElementType type, int k);

// Spreads the stored elements of sixteen rows (stored[k' * stride + row], k / 2 of them) over their places
// (out[k * stride + row], the rest zero). `metadata`: a register of 32 lanes. Throws std::invalid_argument
// for metadata that is undefined.
void spread_sparse_rows(ElementType type, const SparseLayout& layout, const std::uint32_t* metadata,
                        const float* stored, std::int64_t stride, float* out);

}  // namespace sglab::emu
