#pragma once

#include <cstdint>

#include "isa/types.hpp"
#include "machine/engine/registers.hpp"
#include "machine/tensor/element.hpp"

// What Extra::payload is of wmma.load and wmma.store.
namespace sglab::emu {

// A matrix spread over a warp; its registers stand in Extra::refs from `first` on.
struct Fragment {
  int rows = 0, columns = 0;
  ElementType type = ElementType::kF16;
  int bytes = 2;  // of an element
  unsigned first = 0, registers = 0;

  int per_lane() const { return rows * columns / 32; }
};

struct MoveOperands {
  Fragment fragment;
  Space space = Space::kGeneric;
  bool by_rows = true;
  std::uint32_t stride = 0;  // of Extra::refs, if the operand is given
  bool strided = false;
};

// What the instruction has as a stride, in elements.
inline std::uint64_t tile_stride(const Warp& w, const Inst* i, const MoveOperands& move) {
  const int dense = move.by_rows ? move.fragment.columns : move.fragment.rows;
  return move.strided ? lanes32(w, i->extra->refs[move.stride])[0] : static_cast<std::uint64_t>(dense);
}

// Where the lanes' elements number `slot` are, the matrix being at `base`.
inline void tile_addresses(const MoveOperands& move, std::uint64_t base, std::uint64_t stride, int slot,
                           std::uint64_t* out) {
  const Fragment& f = move.fragment;
  for (int lane = 0; lane < 32; ++lane) {
    const int element = lane * f.per_lane() + slot, row = element / f.columns, column = element % f.columns;
    const auto outer = static_cast<std::uint64_t>(move.by_rows ? row : column);
    const auto inner = static_cast<std::uint64_t>(move.by_rows ? column : row);
    out[lane] = base + (outer * stride + inner) * static_cast<std::uint64_t>(f.bytes);
  }
}

}  // namespace sglab::emu
