#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "machine/tensor/element.hpp"
#include "machine/tensor/mma_kernel.hpp"
#include "machine/tensor/smem_descriptor.hpp"

namespace sglab::emu {

// An operand reaches outside the CTA's shared memory.
class SmemOutOfBounds : public std::out_of_range {
 public:
  SmemOutOfBounds(std::uint32_t address, std::size_t size)
      : std::out_of_range("matrix operand reads 16 bytes at shared address " + std::to_string(address) +
                          " of " + std::to_string(size)),
        address(address) {}
  std::uint32_t address;
};

// The bytes of one CTA's shared window, from address zero.
using SmemView = std::span<const std::uint8_t>;

// Where a panel's elements go. `row` is M of A or N of B.
struct PanelOut {
  float* data;
  std::int64_t row_stride;
  std::int64_t k_stride;
};

struct OperandShape {
  ElementType type;
  Major major;
  int rows;  // M or N in this CTA; a multiple of 8
  int k;     // stored elements along K (half of the logical K of a sparse A)
  bool
      packed_fp4;  // two e2m1 per byte (kind::mxf4*); otherwise sub-byte elements sit in padded 16-byte units
};

// Decodes the elements of sixteen bytes.
using ChunkDecoder = void (*)(const std::uint8_t* chunk, float* out);
// Throws std::invalid_argument for types that are no operands in shared memory.
ChunkDecoder chunk_decoder(ElementType type, bool packed_fp4);

// Elements held by one 16-byte chunk of shared memory.
int elements_per_chunk(ElementType type, bool packed_fp4);

// Decodes an operand from shared memory into fp32. Throws SmemOutOfBounds.
void gather_operand(SmemView smem, const SmemDescriptor& descriptor, const OperandShape& shape,
                    const PanelOut& out);

// Calls visit(address) for each 16-byte chunk that the operand reads, in no particular order.
template <typename Visit>
void for_each_operand_chunk(const SmemDescriptor& descriptor, const OperandShape& shape, Visit&& visit) {
  const ChunkAddress address(descriptor, shape.major);
  const int per_chunk = elements_per_chunk(shape.type, shape.packed_fp4);
  const int lines = shape.major == Major::kK ? shape.rows : shape.k;
  const int length = shape.major == Major::kK ? shape.k : shape.rows;
  for (int line = 0; line < lines; ++line) {
    for (int chunk = 0; chunk * per_chunk < length; ++chunk) visit(address(line, chunk));
  }
}

}  // namespace sglab::emu
