#include "emulator/tensor/fragments.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/tensor/mma_kernel.hpp"

namespace sglab::emu {
namespace {

int elements_per_register(ElementType type) {
  return std::max(1, 32 / std::max(element_bits(type) == 6 ? 8 : element_bits(type), 1));
}

// Decodes the E elements of one register.
void decode_register(ElementType type, std::uint32_t word, float* out) {
  const int per = elements_per_register(type);
  if (per == 1) {
    out[0] = decode_element(type, word);
    return;
  }
  if (per == 2) {
    out[0] = decode_element(type, word & 0xffffu);
    out[1] = decode_element(type, word >> 16);
    return;
  }
  const float* table = byte_decode_table(type);
  const int bits = 32 / per;
  const std::uint32_t mask = (1u << bits) - 1;
  for (int e = 0; e < per; ++e) out[e] = table[(word >> (bits * e)) & mask];
}

bool is_sixteen_bit(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kBf16;
}

// All 32 lanes of a register at once, split into low and high halves.
void widen_register(ElementType type, const std::uint32_t* lanes, float* low, float* high) {
  std::uint16_t halves[2][32];
  for (int lane = 0; lane < 32; ++lane) {
    halves[0][lane] = static_cast<std::uint16_t>(lanes[lane]);
    halves[1][lane] = static_cast<std::uint16_t>(lanes[lane] >> 16);
  }
  const auto widen = type == ElementType::kF16 ? mma_kernels().widen_f16 : mma_kernels().widen_bf16;
  widen(reinterpret_cast<const std::uint8_t*>(halves[0]), low, 32);
  widen(reinterpret_cast<const std::uint8_t*>(halves[1]), high, 32);
}

// Calls place(lane, first k, elements) for register r of an operand.
template <typename Place>
void for_each_lane(ElementType type, const std::uint32_t* lanes, Place place) {
  float values[32];
  if (is_sixteen_bit(type)) {
    float low[32], high[32];
    widen_register(type, lanes, low, high);
    for (int lane = 0; lane < 32; ++lane) {
      values[0] = low[lane], values[1] = high[lane];
      place(lane, values, 2);
    }
    return;
  }
  const int per = elements_per_register(type);
  for (int lane = 0; lane < 32; ++lane) {
    decode_register(type, lanes[lane], values);
    place(lane, values, per);
  }
}

int accumulator_row(int lane, int i) {
  return lane / 4 + 8 * (i / 2);
}
int accumulator_column(int lane, int i) {
  return 2 * (lane % 4) + i % 2;
}

std::uint32_t accumulator_bits(ElementType type, const std::uint32_t* registers, int lane, int i) {
  if (type != ElementType::kF16) return registers[32 * i + lane];
  return registers[32 * (i / 2) + lane] >> (16 * (i % 2)) & 0xffffu;
}

void set_accumulator(ElementType type, std::uint32_t* registers, int lane, int i, std::uint32_t bits) {
  if (type != ElementType::kF16) {
    registers[32 * i + lane] = bits;
    return;
  }
  std::uint32_t& word = registers[32 * (i / 2) + lane];
  word = i % 2 ? (word & 0xffffu) | bits << 16 : (word & 0xffff0000u) | bits;
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

}  // namespace

int a_registers(ElementType type, int rows, int k) {
  return rows / 8 * k / (4 * elements_per_register(type));
}
int b_registers(ElementType type, int k) {
  return k / (4 * elements_per_register(type));
}

void unpack_a(ElementType type, int rows, int k, const std::uint32_t* registers, float* panel) {
  if (rows < 16) std::memset(panel, 0, sizeof(float) * 16 * k);
  const int per = elements_per_register(type), count = a_registers(type, rows, k), row_blocks = rows / 8;
  for (int r = 0; r < count; ++r) {
    const int row = 8 * (r % row_blocks), column = 4 * per * (r / row_blocks);
    for_each_lane(type, registers + 32 * r, [&](int lane, const float* values, int n) {
      float* out = panel + (column + lane % 4 * n) * 16 + row + lane / 4;
      for (int e = 0; e < n; ++e) out[16 * e] = values[e];
    });
  }
}

void unpack_b(ElementType type, int k, const std::uint32_t* registers, float* panel) {
  const int per = elements_per_register(type), count = b_registers(type, k);
  for (int r = 0; r < count; ++r) {
    for_each_lane(type, registers + 32 * r, [&](int lane, const float* values, int n) {
      float* out = panel + lane / 4 * k + 4 * per * r + lane % 4 * n;
      for (int e = 0; e < n; ++e) out[e] = values[e];
    });
  }
}

void run_warp_mma(const WarpMma& mma, const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c,
                  std::uint32_t* d) {
  if (mma.bit_op != WarpMma::BitOp::kNone) return run_bits(mma, a, b, c, d);
  float a_panel[64 * 16], b_panel[8 * 64], sum[8 * 16] = {};
  unpack_a(mma.a_type, mma.m, mma.k, a, a_panel);
  unpack_b(mma.b_type, mma.k, b, b_panel);
  const bool integer = mma.d_type == ElementType::kS32;
  const int count = mma.m / 4;
  if (!integer) {
    for (int i = 0; i < count; ++i) {
      for (int lane = 0; lane < 32; ++lane) {
        sum[16 * accumulator_column(lane, i) + accumulator_row(lane, i)] =
            decode_element(mma.c_type, accumulator_bits(mma.c_type, c, lane, i));
      }
    }
  }
  mma_kernels().multiply({a_panel, 16, b_panel, mma.k, 1, sum, 16, 16, 8, mma.k, true});
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const float value = sum[16 * accumulator_column(lane, i) + accumulator_row(lane, i)];
      const std::uint32_t bits =
          integer ? add_integer(c[32 * i + lane], static_cast<std::int64_t>(value), mma.saturate)
                  : encode_element(mma.d_type, value, false);
      set_accumulator(mma.d_type, d, lane, i, bits);
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
        sum = std::fma(left, b[32 * (kk / 4) + 4 * column + kk % 4], sum);
      }
      out[32 * i + lane] = sum;
    }
  }
  std::memcpy(d, out, sizeof(double) * 32 * (m / 4));
}

}  // namespace sglab::emu
