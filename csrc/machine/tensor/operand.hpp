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
  bool operator==(const OperandShape&) const = default;
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

// Whether the operand of the `number`th next instruction lies right behind that of the first one, in the same
// rows of its swizzle atoms: what `first` describes, longer by as much along K, is both and what is between.
bool continues_row(const SmemDescriptor& first, const SmemDescriptor& next, const OperandShape& shape,
                   int number);

// How many chunks of a line of `chunks`, from each multiple of that many on, fill an aligned block of memory:
// a swizzle only permutes the chunks within a row of its atom.
std::uint32_t chunks_of_a_run(const SmemDescriptor& descriptor, Major major, std::uint32_t chunks);

// Calls visit(address, bytes) for the blocks of shared memory that the operand reads, in no particular order.
template <typename Visit>
void for_each_operand_run(const SmemDescriptor& descriptor, const OperandShape& shape, Visit&& visit) {
  const ChunkAddress address(descriptor, shape.major);
  const int per_chunk = elements_per_chunk(shape.type, shape.packed_fp4);
  const int lines = shape.major == Major::kK ? shape.rows : shape.k;
  const int length = shape.major == Major::kK ? shape.k : shape.rows;
  const auto chunks = static_cast<std::uint32_t>((length + per_chunk - 1) / per_chunk);
  const std::uint32_t step = chunks_of_a_run(descriptor, shape.major, chunks);
  for (int line = 0; line < lines; ++line) {
    for (std::uint32_t chunk = 0; chunk < chunks; chunk += step)
      visit(address(static_cast<std::uint32_t>(line), chunk) & ~(16 * step - 1), 16 * step);
  }
}

}  // namespace sglab::emu
