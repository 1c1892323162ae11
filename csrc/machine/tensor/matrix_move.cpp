#include "machine/tensor/matrix_move.hpp"

#include <cstring>

#include "machine/tensor/mma_kernel.hpp"

namespace sglab::emu {
namespace {

int rows_per_matrix(MatrixShape shape) {
  return shape == MatrixShape::k16x16B8 ? 16 : 8;
}
int registers_per_matrix(MatrixShape shape) {
  return shape == MatrixShape::k16x16B8 ? 2 : 1;
}

struct Place {
  int row;   // of the register's matrix
  int byte;  // within the sixteen bytes of the row
};

// Where byte `b` of a thread's register comes from. Sixteen-bit elements move as two bytes.
Place place_of(const MatrixMove& move, int lane, int reg, int b) {
  const int g = lane / 4, q = lane % 4;
  switch (move.shape) {
    case MatrixShape::k8x8B16:
      return move.transposed ? Place{2 * q + b / 2, 2 * g + b % 2} : Place{g, 4 * q + b};
    case MatrixShape::k16x16B8:  // always transposed
      return {4 * q + b, g + 8 * reg};
    case MatrixShape::k8x16B8:
      return {g, 4 * q + b};
    case MatrixShape::k16x8B8:  // always transposed
      return {2 * q + b % 2, g + 8 * (b / 2)};
  }
  return {0, 0};
}

// The usual case: a row is four lanes' words as they are, or transposed.
bool is_plain(const MatrixMove& move) {
  return move.shape == MatrixShape::k8x8B16 && move.format == CopyFormat::kNone;
}

void load_plain(const std::uint8_t* const* rows, bool transposed, std::uint32_t* words) {
  if (transposed) {
    std::uint16_t halves[64];
    mma_kernels().transpose_halves(rows, halves);
    std::memcpy(words, halves, sizeof(halves));
    return;
  }
  for (int row = 0; row < 8; ++row) std::memcpy(words + 4 * row, rows[row], 16);
}

void store_plain(std::uint8_t* const* rows, bool transposed, const std::uint32_t* words) {
  std::uint32_t turned[32];
  if (transposed) {
    transpose_matrix(words, turned);
    words = turned;
  }
  for (int row = 0; row < 8; ++row) std::memcpy(rows[row], words + 4 * row, 16);
}

}  // namespace

int matrix_registers(const MatrixMove& move) {
  return move.count * registers_per_matrix(move.shape);
}
int matrix_rows(const MatrixMove& move) {
  return move.count * rows_per_matrix(move.shape);
}

void load_matrices(const MatrixMove& move, const std::uint8_t* const* rows, std::uint32_t* registers) {
  const int per = registers_per_matrix(move.shape), height = rows_per_matrix(move.shape);
  for (int matrix = 0; matrix < move.count; ++matrix) {
    if (is_plain(move)) {
      load_plain(rows + 8 * matrix, move.transposed, registers + 32 * matrix);
      continue;
    }
    std::uint8_t bytes[16][16];
    for (int row = 0; row < height; ++row) expand_chunk(move.format, rows[matrix * height + row], bytes[row]);
    for (int reg = 0; reg < per; ++reg) {
      std::uint32_t* out = registers + 32 * (matrix * per + reg);
      for (int lane = 0; lane < 32; ++lane) {
        std::uint32_t word = 0;
        for (int b = 0; b < 4; ++b) {
          const Place at = place_of(move, lane, reg, b);
          word |= static_cast<std::uint32_t>(bytes[at.row][at.byte]) << (8 * b);
        }
        out[lane] = word;
      }
    }
  }
}

void store_matrices(const MatrixMove& move, std::uint8_t* const* rows, const std::uint32_t* registers) {
  for (int matrix = 0; matrix < move.count; ++matrix) {
    if (is_plain(move)) {
      store_plain(rows + 8 * matrix, move.transposed, registers + 32 * matrix);
      continue;
    }
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint32_t word = registers[32 * matrix + lane];
      for (int b = 0; b < 4; ++b) {
        const Place at = place_of(move, lane, 0, b);
        rows[matrix * 8 + at.row][at.byte] = static_cast<std::uint8_t>(word >> (8 * b));
      }
    }
  }
}

void transpose_matrix(const std::uint32_t* source, std::uint32_t* target) {
  const std::uint8_t* rows[8];
  for (int row = 0; row < 8; ++row) rows[row] = reinterpret_cast<const std::uint8_t*>(source + 4 * row);
  std::uint16_t halves[64];
  mma_kernels().transpose_halves(rows, halves);
  std::memcpy(target, halves, sizeof(halves));
}

}  // namespace sglab::emu
