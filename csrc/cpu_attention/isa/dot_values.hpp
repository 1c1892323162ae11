// Weights times values of few rows.

#pragma once

#include "cpu_attention/isa/rows.hpp"

namespace sglab::cpu_attention {
namespace {

// values[row][d ...] = values * shrink + sum over keys of weight * v, for kRows rows and kVecs vectors of
// dims.
template <Element kElement>
struct FloatValues {
  typedef typename Format<kElement>::Stored Stored;
  static constexpr int kStep = kLanes;
  template <int kRows, int kVecs>
  static void add(const std::uint8_t* const* v, int count, int d, const float* weights, float* values,
                  int stride, const float* shrink) {
    Vec sum[kRows][kVecs];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVecs; ++i) sum[r][i] = load(values + r * stride + d + i * kLanes) * shrink[r];
    }
    for (int j = 0; j < count; ++j) {
      const Stored* const from = reinterpret_cast<const Stored*>(v[j]) + d;
      Vec row[kVecs];
      for (int i = 0; i < kVecs; ++i) row[i] = Format<kElement>::read(from + i * kLanes);
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < kVecs; ++i) sum[r][i] += row[i] * weights[r * kBlockKeys + j];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVecs; ++i) store(values + r * stride + d + i * kLanes, sum[r][i]);
    }
  }
  // Fewer dims than a vector has.
  static void add_rest(const std::uint8_t* const* v, int count, int d, int dims, const float* weights,
                       float* values, float shrink) {
    Vec sum = load(values + d) * shrink;
    for (int j = 0; j < count; ++j) {
      Stored rest[kLanes] = {};
      std::memcpy(rest, reinterpret_cast<const Stored*>(v[j]) + d, dims * sizeof(Stored));
      sum += Format<kElement>::read(rest) * weights[j];
    }
    store(values + d, sum);
  }
};

// bfloat16 rows as they are: a vector's even elements, then its odd ones, so `values` holds them in that
// order. Whole vectors alone.
struct SplitValues {
  static void add_rest(const std::uint8_t* const*, int, int, int, const float*, float*, float) {}
  static constexpr int kStep = 2 * kLanes;
  template <int kRows, int kVecs>
  static void add(const std::uint8_t* const* v, int count, int d, const float* weights, float* values,
                  int stride, const float* shrink) {
    Vec sum[kRows][2 * kVecs];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < 2 * kVecs; ++i) sum[r][i] = load(values + r * stride + d + i * kLanes) * shrink[r];
    }
    for (int j = 0; j < count; ++j) {
      Vec row[2 * kVecs];
      for (int i = 0; i < kVecs; ++i) {
        const Bits both = load_as<Bits>(v[j] + (d + i * kStep) * 2);
        row[2 * i] = (Vec)(both << 16);
        row[2 * i + 1] = (Vec)(both & 0xffff0000u);
      }
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < 2 * kVecs; ++i) sum[r][i] += row[i] * weights[r * kBlockKeys + j];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < 2 * kVecs; ++i) store(values + r * stride + d + i * kLanes, sum[r][i]);
    }
  }
};

// From dim d on: as many vectors at a time as fit, then fewer.
template <typename Values, int kRows, int kVecs>
inline void dot_values_rows(const std::uint8_t* const* v, int count, int d, int dim, const float* weights,
                            float* values, int stride, const float* shrink) {
  constexpr int kWide = kVecs * Values::kStep;
  for (; d + kWide <= dim; d += kWide) {
    Values::template add<kRows, kVecs>(v, count, d, weights, values, stride, shrink);
  }
  if constexpr (kVecs > 1) {
    dot_values_rows<Values, kRows, kVecs / 2>(v, count, d, dim, weights, values, stride, shrink);
  } else if (d < dim) {
    for (int r = 0; r < kRows; ++r) {
      Values::add_rest(v, count, d, dim - d, weights + r * kBlockKeys, values + r * stride, shrink[r]);
    }
  }
}

template <typename Values>
void dot_values(const std::uint8_t* const* v, int count, int dim, int rows, const float* weights,
                float* values, int stride, const float* shrink) {
  constexpr int kVecs = kAccumulators * kLanes / Values::kStep;  // for one row
  int r = 0;
  if constexpr (kVecs >= 8) {
    for (; r + 4 <= rows; r += 4) {
      dot_values_rows<Values, 4, kVecs / 4>(v, count, 0, dim, weights + r * kBlockKeys, values + r * stride,
                                            stride, shrink + r);
    }
  }
  for (; r + 2 <= rows; r += 2) {
    dot_values_rows<Values, 2, kVecs / 2>(v, count, 0, dim, weights + r * kBlockKeys, values + r * stride,
                                          stride, shrink + r);
  }
  if (r < rows) {
    dot_values_rows<Values, 1, kVecs / 2>(v, count, 0, dim, weights + r * kBlockKeys, values + r * stride,
                                          stride, shrink + r);
  }
}

// From even elements before odd ones, vector by vector, to their order.
inline void interleave(float* values, int dim) {
  float even_first[2 * kLanes];
  for (int d = 0; d < dim; d += 2 * kLanes) {
    std::memcpy(even_first, values + d, sizeof(even_first));
    for (int i = 0; i < kLanes; ++i) {
      values[d + 2 * i] = even_first[i];
      values[d + 2 * i + 1] = even_first[kLanes + i];
    }
  }
}

}  // namespace
}  // namespace sglab::cpu_attention
