#pragma once

#include <cstdint>

#include "machine/tensor/element.hpp"
#include "machine/tensor/sparse_fragments.hpp"

namespace sglab::emu {

// How mma.sync and wgmma spread matrices over a warp's registers. With g = lane / 4, q = lane % 4 and E
// elements of an operand per register (one f64 per 64-bit register):
//   A, register r: row g + 8 (r % 2) (row g and column block r for 8-row shapes), columns q E + 0 … E-1, + 4
//   E (r / 2) B, register r: column g of B, rows q E + 0 … E-1, + 4 E r C and D, element i: row g + 8 (i / 2
//   % 2), column 2 q + i % 2, + 8 (i / 4)
// These reproduce every fragment table of the PTX ISA for m16n8k*, m8n8k* (but f16's m8n8k4) and, per warp,
// wgmma.

// Registers are [register][32 lanes].
// A as [k][16 rows] (rows 8-15 zero for 8-row shapes), from `rows` x `k` elements.
void unpack_a(ElementType type, int rows, int k, const std::uint32_t* registers, float* panel);
// B as [8 columns][k].
void unpack_b(ElementType type, int k, const std::uint32_t* registers, float* panel);

// Operand registers per thread.
int a_registers(ElementType type, int rows, int k);
int b_registers(ElementType type, int k);

// One mma.sync.m{m}n8k{k}.
struct WarpMma {
  int m;  // 16 or 8
  int k;
  ElementType a_type, b_type;
  ElementType c_type, d_type;  // f16, f32 or s32
  bool saturate = false;
  enum class BitOp : std::uint8_t { kNone, kXor, kAnd } bit_op = BitOp::kNone;
  bool sparse = false;  // A has k / 2 elements in each row
  SparseLayout sparsity{};
};

// C and D: m/4 registers of 32 bits per thread; f16 packs two to a register. `metadata`: of a sparse A.
void run_warp_mma(const WarpMma& mma, const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c,
                  std::uint32_t* d, const std::uint32_t* metadata = nullptr);
// mma.sync.m8n8k4 of f16: four products, each by a quad pair (four lanes and those sixteen further on), of 8
// x 4 and 4 x 8 elements. C and D have four registers of f16, or eight of f32.
struct QuadPairMma {
  bool a_by_rows, b_by_rows, c_wide, d_wide;
};
void run_quad_pair_mma(const QuadPairMma& mma, const std::uint32_t* a, const std::uint32_t* b,
                       const std::uint32_t* c, std::uint32_t* d);
// mma.sync.*.f64: fused multiply-adds in the order of k.
void run_warp_mma_f64(int m, int k, const double* a, const double* b, const double* c, double* d);

}  // namespace sglab::emu
