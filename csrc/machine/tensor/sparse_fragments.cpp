#include "machine/tensor/sparse_fragments.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sglab::emu {
namespace {

// Elements along K that four bits of metadata describe.
int chunk_elements(ElementType type) {
  return type == ElementType::kTf32 ? 2 : element_bits(type) == 4 ? 8 : 4;
}

// Four bits of row `row` (of sixteen). A register has 32 bits: of types of 16 bits and more, four chunks of
// row lane / 4 and four of the row eight below; of the others eight chunks of one of these rows.
std::uint32_t nibble(ElementType type, const SparseLayout& layout, const std::uint32_t* metadata, int row,
                     int chunk) {
  const int chunks = layout.k / chunk_elements(type), half = row / 8;
  const bool wide = element_bits(type) >= 16;
  const int threads = chunks / (wide ? 4 : 8) * (wide ? 1 : 2);  // of each four, that have metadata
  const int thread = threads * layout.selector + (wide ? chunk / 4 : half + chunk / 8 * 2);
  const std::uint32_t word = metadata[4 * (row % 8) + thread];
  return word >> (wide ? 16 * half + chunk % 4 * 4 : chunk % 8 * 4) & 0xf;
}

[[noreturn]] void undefined(std::uint32_t bits) {
  throw std::invalid_argument("sparsity metadata " + std::to_string(bits) +
                              " does not name the places of two elements");
}

}  // namespace

int sparsity_selectors(ElementType type, int k) {
  return 16 * chunk_elements(type) / k;
}

void spread_sparse_rows(ElementType type, const SparseLayout& layout, const std::uint32_t* metadata,
                        const float* stored, std::int64_t stride, float* out) {
  const int logical = chunk_elements(type), unit = std::max(1, logical / 4);
  for (int k = 0; k < layout.k; ++k) std::fill_n(out + k * stride, 16, 0.0f);
  for (int chunk = 0; chunk < layout.k / logical; ++chunk) {
    for (int row = 0; row < 16; ++row) {
      const std::uint32_t bits = nibble(type, layout, metadata, row, chunk);
      if (type == ElementType::kTf32) {
        if (bits != 0b1110 && bits != 0b0100) undefined(bits);
        out[(2 * chunk + (bits == 0b1110 ? 1 : 0)) * stride + row] = stored[chunk * stride + row];
        continue;
      }
      const int first = static_cast<int>(bits & 3), second = static_cast<int>(bits >> 2);
      if (first == second || (layout.ordered && first > second)) undefined(bits);
      const float* const from = stored + 2 * unit * chunk * stride + row;
      float* const to = out + logical * chunk * stride + row;
      for (int e = 0; e < unit; ++e) {
        to[(first * unit + e) * stride] = from[e * stride];
        to[(second * unit + e) * stride] = from[(unit + e) * stride];
      }
    }
  }
}

}  // namespace sglab::emu
