// Scores of few rows: sums over lanes.

#pragma once

#include "cpu_attention/isa/rows.hpp"

namespace sglab::cpu_attention {
namespace {

#if defined(__AVX512BF16__)
constexpr bool kPairDots = true;
#else
constexpr bool kPairDots = false;
#endif

// Floats of q times elements of k.
template <Element kElement>
struct FloatDot {
  typedef float Scalar;
  typedef typename Format<kElement>::Stored Stored;
  static constexpr int kStep = kLanes;
  static Vec add(Vec sum, const float* q, const std::uint8_t* k, int at) {
    return sum + load(q + at) * Format<kElement>::read(reinterpret_cast<const Stored*>(k) + at);
  }
  static Vec add_rest(Vec sum, const float* q, const std::uint8_t* k, int at, int count) {
    Stored rest[kLanes] = {};
    std::memcpy(rest, reinterpret_cast<const Stored*>(k) + at, count * sizeof(Stored));
    return sum + load(q + at) * Format<kElement>::read(rest);
  }
};

#if defined(__AVX512BF16__)
struct PairDot {
  typedef std::uint16_t Scalar;
  static constexpr int kStep = 2 * kLanes;
  static Vec add(Vec sum, const std::uint16_t* q, const std::uint8_t* k, int at) {
    const __m512i left = _mm512_loadu_si512(q + at), right = _mm512_loadu_si512(k + at * 2);
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
  }
  static Vec add_rest(Vec sum, const std::uint16_t* q, const std::uint8_t* k, int at, int count) {
    std::uint16_t rest[kStep] = {};
    std::memcpy(rest, k + at * 2, count * 2);
    return add(sum, q + at, reinterpret_cast<const std::uint8_t*>(rest), 0);
  }
};
#endif

// scores[row * stride + key] of kRows rows and four keys. q's rows are `q_stride` apart, zero beyond `dim`.
template <typename Dot, int kRows>
inline void dot_tile(const typename Dot::Scalar* q, int q_stride, const std::uint8_t* const* k, int dim,
                     float* scores) {
  Vec sum[kRows][4] = {};
  int at = 0;
  for (; at + Dot::kStep <= dim; at += Dot::kStep) {
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < 4; ++j) sum[r][j] = Dot::add(sum[r][j], q + r * q_stride, k[j], at);
    }
  }
  if (at < dim) {
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < 4; ++j) sum[r][j] = Dot::add_rest(sum[r][j], q + r * q_stride, k[j], at, dim - at);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    store(scores + r * kBlockKeys, sums_of(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
  }
}

// Of four keys.
template <typename Dot>
inline void dot_scores(const typename Dot::Scalar* q, int q_stride, int rows, const std::uint8_t* const* k,
                       int dim, float* scores) {
  int r = 0;
  if constexpr (kAccumulators >= 16) {
    for (; r + 4 <= rows; r += 4) {
      dot_tile<Dot, 4>(q + r * q_stride, q_stride, k, dim, scores + r * kBlockKeys);
    }
  }
  for (; r + 2 <= rows; r += 2) {
    dot_tile<Dot, 2>(q + r * q_stride, q_stride, k, dim, scores + r * kBlockKeys);
  }
  if (r < rows) dot_tile<Dot, 1>(q + r * q_stride, q_stride, k, dim, scores + r * kBlockKeys);
}

// From products to weights 2^(score - top), in place; `top` and `sum` of the row go on.
// Returns the factor of what was summed before.
inline float weigh(const Rows& rows, int r, const Block& block, const Factors& factors, float* scores,
                   float& top, float& sum) {
  const bool capped = rows.call.cap > 0;
  const Vec first = splat(rows.first_factor[r] * factors.k), second = splat(rows.second_factor[r]);
  const std::int64_t low = rows.low[r] - block.first, high = least(rows.high[r] - block.first, block.count);
  const std::uint8_t* const mask = rows.mask(r, block.first);
  Vec best = splat(top);
  Ints key;
  for (int i = 0; i < kLanes; ++i) key[i] = i;
  const bool whole = mask == nullptr && low <= 0;
  const int end = static_cast<int>(rounded_up(block.count, kLanes));
  for (int j = 0; j < end; j += kLanes, key += kLanes) {
    Vec score = scored(load(scores + j), first, second, capped);
    if (!whole || j + kLanes > high) {
      Ints seen = (key >= static_cast<std::int32_t>(low)) & (key < static_cast<std::int32_t>(high));
      if (mask != nullptr) {
        for (int i = 0; i < kLanes && j + i < block.count; ++i) seen[i] = mask[j + i] != 0 ? seen[i] : 0;
      }
      score = select(seen, score, splat(-kInfinity));
    }
    store(scores + j, score);
    best = larger(score, best);
  }
  const float now = max_of(best), shift = now == -kInfinity ? 0.0f : now;
  Vec total = {};
  for (int j = 0; j < end; j += kLanes) {
    const Vec weight = exp2(load(scores + j) - shift);
    total += weight;
    store(scores + j, weight * factors.v);
  }
  const float shrink = exp2(top - shift);
  sum = sum * shrink + sum_of(total);
  top = now;
  return shrink;
}

}  // namespace
}  // namespace sglab::cpu_attention
