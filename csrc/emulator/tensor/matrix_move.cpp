#include "emulator/tensor/matrix_move.hpp"

#include <cstring>

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
  const auto element = [source](int row, int column) {
    return source[4 * row + column / 2] >> (16 * (column % 2)) & 0xffffu;
  };
  std::uint32_t out[32];
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, column = 2 * (lane % 4);
    out[lane] = element(column, row) | element(column + 1, row) << 16;
  }
  std::memcpy(target, out, sizeof(out));
}

}  // namespace sglab::emu
