#pragma once

#include <cstdint>

#include "machine/tensor/tmem_transfer.hpp"

namespace sglab::emu {

// ldmatrix and stmatrix: matrices of 16-byte rows between shared memory and a warp's registers.
enum class MatrixShape : std::uint8_t { k8x8B16, k16x16B8, k8x16B8, k16x8B8 };

struct MatrixMove {
  MatrixShape shape;
  int count;  // .x1, .x2 or .x4
  bool transposed;
  CopyFormat format = CopyFormat::kNone;  // ldmatrix.b8x16.*: unpacked on the way
};

int matrix_registers(const MatrixMove& move);
int matrix_rows(const MatrixMove& move);  // row addresses taken, from threads 0 on

// `rows[i]` points to the sixteen bytes at thread i's address; registers are [register][32 lanes].
void load_matrices(const MatrixMove& move, const std::uint8_t* const* rows, std::uint32_t* registers);
void store_matrices(const MatrixMove& move, std::uint8_t* const* rows, const std::uint32_t* registers);

// movmatrix.m8n8.trans.b16
void transpose_matrix(const std::uint32_t* source, std::uint32_t* target);

}  // namespace sglab::emu
