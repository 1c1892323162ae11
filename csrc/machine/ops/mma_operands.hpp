#pragma once

#include "isa/extra.hpp"
#include "machine/tensor/fragments.hpp"
#include "machine/tensor/wgmma.hpp"

// What Extra::payload is of matrix multiplications that others than their handlers read.
namespace sglab::emu {

// mma.sync: how many registers Extra::refs has of D, A, B and C, in this order; then the metadata of a sparse
// A.
struct MmaOperands {
  int d, a, b, c;
  WarpMma mma;
  bool in_registers = false;  // the host multiplies the registers as they lie
};

// wgmma: Extra::refs has the accumulators, then A's registers or descriptor.
struct WgmmaOperands {
  unsigned accumulators = 0, a_registers = 0;  // 0: A is in shared memory
  std::uint32_t b = 0, scale_d = 0;            // of Extra::refs
  std::uint32_t metadata = 0;                  // of a sparse A
  Wgmma form;                                  // but for what registers hold
};

}  // namespace sglab::emu
