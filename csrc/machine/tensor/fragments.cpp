#include "machine/tensor/fragments.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "machine/tensor/operand.hpp"

namespace sglab::emu {
namespace {

int elements_per_register(ElementType type) {
  return std::max(1, 32 / std::max(element_bits(type) == 6 ? 8 : element_bits(type), 1));
}

// Four columns of sixteen words, split into the columns of their elements: out[column][16].
void expand_columns(ElementType type, const std::uint32_t* words, float* out) {
  const MmaKernels& kernels = mma_kernels();
  const int per = elements_per_register(type);
  if (per == 1) {
    for (int i = 0; i < 64; ++i) out[i] = decode_element(type, words[i]);
    return;
  }
  const float* table = per > 2 ? byte_decode_table(type) : nullptr;
  const auto widen = type == ElementType::kF16 ? kernels.widen_f16 : kernels.widen_bf16;
  const std::uint32_t mask = (1u << (32 / per)) - 1;
  for (int column = 0; column < 4; ++column, words += 16) {
    for (int e = 0; e < per; ++e, out += 16) {
      if (per > 2) {
        for (int row = 0; row < 16; ++row) out[row] = table[words[row] >> (32 / per * e) & mask];
        continue;
      }
      std::uint16_t halves[16];
      for (int row = 0; row < 16; ++row) halves[row] = static_cast<std::uint16_t>(words[row] >> (16 * e));
      widen(reinterpret_cast<const std::uint8_t*>(halves), out, 16);
    }
  }
}

constexpr std::uint32_t kZeroRegister[32] = {};

// Accumulators, [column 0-7][row 0-15]: f32 and s32 as their bits, f16 widened.
void load_accumulators(const WarpMma& mma, const std::uint32_t* registers, float* columns) {
  const MmaKernels& kernels = mma_kernels();
  if (mma.c_type == ElementType::kF16) {
    std::uint32_t words[64];
    kernels.fragment_to_columns(registers, registers + 32, reinterpret_cast<float*>(words), 16);
    return expand_columns(ElementType::kF16, words, columns);
  }
  for (int parity = 0; parity < 2; ++parity) {
    const std::uint32_t* upper = registers + 32 * parity;
    kernels.fragment_to_columns(upper, mma.m == 16 ? upper + 64 : kZeroRegister, columns + 16 * parity, 32);
  }
}

void store_accumulators(const WarpMma& mma, const float* columns, std::uint32_t* registers) {
  const MmaKernels& kernels = mma_kernels();
  if (mma.d_type == ElementType::kF16) {
    std::uint16_t halves[128];
    kernels.narrow_f16(columns, halves, 128);
    std::uint32_t words[64];
    for (int i = 0; i < 64; ++i) {
      const int at = i / 16 * 32 + i % 16;
      words[i] = halves[at] | static_cast<std::uint32_t>(halves[at + 16]) << 16;
    }
    return kernels.columns_to_fragment(reinterpret_cast<const float*>(words), 16, registers, registers + 32);
  }
  for (int parity = 0; parity < 2; ++parity) {
    std::uint32_t unused[32];
    std::uint32_t* upper = registers + 32 * parity;
    kernels.columns_to_fragment(columns + 16 * parity, 32, upper, mma.m == 16 ? upper + 64 : unused);
  }
}

int accumulator_row(int lane, int i) {
  return lane / 4 + 8 * (i / 2);
}
int accumulator_column(int lane, int i) {
  return 2 * (lane % 4) + i % 2;
}

std::uint32_t add_integer(std::uint32_t old, std::int64_t value, bool saturate) {
  const std::int64_t sum = static_cast<std::int32_t>(old) + value;
  if (!saturate) return static_cast<std::uint32_t>(sum);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX));
}

void run_bits(const WarpMma& mma, const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c,
              std::uint32_t* d) {
  const int words = mma.k / 32;  // per row of A
  const auto a_word = [&](int row, int w) {
    const int r = mma.m == 16 ? 2 * (w / 4) + row / 8 : w / 4;
    return a[32 * r + 4 * (row % 8) + w % 4];
  };
  for (int i = 0; i < mma.m / 4; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      std::int64_t count = 0;
      for (int w = 0; w < words; ++w) {
        const std::uint32_t left = a_word(accumulator_row(lane, i), w);
        const std::uint32_t right = b[32 * (w / 4) + 4 * accumulator_column(lane, i) + w % 4];
        count += std::popcount(mma.bit_op == WarpMma::BitOp::kAnd ? left & right : left ^ right);
      }
      d[32 * i + lane] = add_integer(c[32 * i + lane], count, mma.saturate);
    }
  }
}

// With the NaN that fma.f64 propagates.
double multiply_add(double a, double b, double c) {
  const double sum = mma_kernels().fused_f64(a, b, c);
  if (sum == sum) return sum;
  constexpr std::uint64_t kNew = 0xfff8000000000000u, kQuiet = 0x0008000000000000u;
  const double nan = b != b ? b : c != c ? c : a;
  return std::bit_cast<double>(nan == nan ? kNew : std::bit_cast<std::uint64_t>(nan) | kQuiet);
}

}  // namespace

int a_registers(ElementType type, int rows, int k) {
  return rows / 8 * k / (4 * elements_per_register(type));
}
int b_registers(ElementType type, int k) {
  return k / (4 * elements_per_register(type));
}

void unpack_a(ElementType type, int rows, int k, const std::uint32_t* registers, float* panel) {
  const int columns = 4 * elements_per_register(type);
  for (int first = 0; first < k; first += columns) {
    std::uint32_t words[64];
    const std::uint32_t* lower = rows == 16 ? registers + 32 : kZeroRegister;
    mma_kernels().fragment_to_columns(registers, lower, reinterpret_cast<float*>(words), 16);
    expand_columns(type, words, panel + 16 * first);
    registers += 4 * rows;
  }
}

// The four lanes of a column hold sixteen bytes of consecutive elements.
void unpack_b(ElementType type, int k, const std::uint32_t* registers, float* panel) {
  const ChunkDecoder decode = chunk_decoder(type, false);
  const int rows = 4 * elements_per_register(type);
  for (int first = 0; first < k; first += rows, registers += 32) {
    for (int column = 0; column < 8; ++column) {
      decode(reinterpret_cast<const std::uint8_t*>(registers + 4 * column), panel + column * k + first);
    }
  }
}

void run_warp_mma(const WarpMma& mma, const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c,
                  std::uint32_t* d, const std::uint32_t* metadata) {
  if (mma.bit_op != WarpMma::BitOp::kNone) return run_bits(mma, a, b, c, d);
  float a_panel[128 * 16], b_panel[8 * 128], sum[8 * 16], product[8 * 16];
  if (mma.sparse) {
    float stored[64 * 16];
    unpack_a(mma.a_type, mma.m, mma.k / 2, a, stored);
    spread_sparse_rows(mma.a_type, mma.sparsity, metadata, stored, 16, a_panel);
  } else {
    unpack_a(mma.a_type, mma.m, mma.k, a, a_panel);
  }
  unpack_b(mma.b_type, mma.k, b, b_panel);
  load_accumulators(mma, c, sum);
  const bool integer = mma.d_type == ElementType::kS32;
  mma_kernels().multiply(
      {a_panel, 16, b_panel, mma.k, 1, integer ? product : sum, 16, 16, 8, mma.k, !integer});
  if (integer) {
    for (int i = 0; i < 128; ++i) {
      const auto value = static_cast<std::int64_t>(product[i]);
      sum[i] = bits_to_float(add_integer(float_to_bits(sum[i]), value, mma.saturate));
    }
  }
  store_accumulators(mma, sum, d);
}

void run_quad_pair_mma(const QuadPairMma& mma, const std::uint32_t* a, const std::uint32_t* b,
                       const std::uint32_t* c, std::uint32_t* d) {
  const auto element = [](const std::uint32_t* registers, int lane, int i) {
    return decode_element(ElementType::kF16, registers[32 * (i / 2) + lane] >> 16 * (i % 2) & 0xffffu);
  };
  // The lane of a product that has line `n` (of eight) of an operand.
  const auto lane_of = [](int pair, int n) { return 4 * pair + n % 4 + 16 * (n / 4); };
  for (int pair = 0; pair < 4; ++pair) {
    float left[8][4], right[8][4];
    for (int n = 0; n < 8; ++n) {
      for (int k = 0; k < 4; ++k) {
        left[n][k] =
            mma.a_by_rows ? element(a, lane_of(pair, n), k) : element(a, lane_of(pair, n / 4 * 4 + k), n % 4);
        right[n][k] =
            mma.b_by_rows ? element(b, lane_of(pair, n / 4 * 4 + k), n % 4) : element(b, lane_of(pair, n), k);
      }
    }
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 8; ++column) {
        // Where f32 stands: bits 0 and 2 of the row and bit 1 of the column are the lane's.
        const int wide_lane = 4 * pair + row % 2 + column / 2 % 2 * 2 + 16 * (row / 4);
        const int wide_at = column % 2 + row / 2 % 2 * 2 + column / 4 * 4;
        const int lane = lane_of(pair, row);
        float sum = mma.c_wide ? bits_to_float(c[32 * wide_at + wide_lane]) : element(c, lane, column);
        for (int k = 0; k < 4; ++k) sum = std::fma(left[row][k], right[column][k], sum);
        if (mma.d_wide) {
          d[32 * wide_at + wide_lane] = sum == sum ? float_to_bits(sum) : 0x7fffffffu;
        } else {
          std::uint32_t& word = d[32 * (column / 2) + lane];
          const int shift = 16 * (column % 2);
          word = (word & ~(0xffffu << shift)) | encode_element(ElementType::kF16, sum, false) << shift;
        }
      }
    }
  }
}

void run_warp_mma_f64(int m, int k, const double* a, const double* b, const double* c, double* d) {
  const int row_blocks = m / 8;
  double out[4 * 32];
  for (int i = 0; i < m / 4; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = accumulator_row(lane, i), column = accumulator_column(lane, i);
      double sum = c[32 * i + lane];
      for (int kk = 0; kk < k; ++kk) {
        const double left = a[32 * (row_blocks * (kk / 4) + row / 8) + 4 * (row % 8) + kk % 4];
        sum = multiply_add(left, b[32 * (kk / 4) + 4 * column + kk % 4], sum);
      }
      out[32 * i + lane] = sum;
    }
  }
  std::memcpy(d, out, sizeof(double) * 32 * (m / 4));
}

}  // namespace sglab::emu
