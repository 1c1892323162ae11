#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "machine/tensor/datapath.hpp"
#include "machine/tensor/instruction_descriptor.hpp"
#include "machine/tensor/operand.hpp"
#include "machine/tensor/tmem.hpp"

namespace sglab::emu {

// What one tcgen05.mma does, with every operand resolved. Descriptors and tensor-memory addresses hold in
// the same in each CTA of the pair.
struct Tcgen05Mma {
  InstructionDescriptor descriptor;
  int cta_group = 1;
  bool weight_stationary = false;
  TmemAddress d{};
  std::optional<SmemDescriptor> a_smem;  // else A is in tensor memory at a_tmem
  TmemAddress a_tmem{};
  bool shift_a = false;  // .ashift: each row of A is the next one in tensor memory; a CTA's last row stays
  SmemDescriptor b_smem;
  TmemAddress scale_a{};  // block-scaled kinds
  TmemAddress scale_b{};
  int scale_block = 32;  // elements of K per scale factor: 32 or 16
  TmemAddress sparsity_metadata{};
  bool enable_input_d = true;
  int scale_input_d = 0;                          // D is multiplied by 2^-scale_input_d first
  std::array<std::uint32_t, 8> disabled_lanes{};  // 128 bits per CTA
  std::array<std::uint64_t, 4> zero_columns{};    // .ws: columns of B that count as zero
};

// The memories of one CTA of the group.
struct MmaCta {
  SmemView smem;
  TensorMemory* tmem;
};

// Performs it. `ctas` holds cta_group entries, the even CTA first. Throws SmemOutOfBounds, std::out_of_range
// (tensor memory) or std::invalid_argument, before anything was written.
void run_tcgen05_mma(const Tcgen05Mma& mma, std::span<const MmaCta> ctas);

// Whether `next`, right after `first`, goes on with its sums over K: the same D in fp32, operands of the same
// form, A in shared memory or in tensor memory that D does not cover, all cells and columns.
bool continues_product(const Tcgen05Mma& first, const Tcgen05Mma& next);

// Performs the first and those that continue it as one product: the same bits, with D read and written once.
// Throws as run_tcgen05_mma does.
void run_tcgen05_product(std::span<const Tcgen05Mma* const> mmas, std::span<const MmaCta> ctas);

// Throws std::out_of_range if an operand leaves tensor memory, std::invalid_argument for a shape that .ashift
// does not have.
void check_mma_cells(const Tcgen05Mma& mma);

// .ws's zero-column mask descriptor as one bit per column of B. Throws std::invalid_argument on a non-zero
// shift.
std::array<std::uint64_t, 4> decode_zero_column_mask(std::uint64_t bits, int m, int n);

// Columns of tensor memory that D covers from its address on.
int accumulator_columns(const Tcgen05Mma& mma);

}  // namespace sglab::emu
