// Few rows, as in decode: a vector holds a row's dims. Scores are sums over lanes; bound by memory, not by products.

#pragma once

#include "cpu_attention/isa/rows.hpp"

namespace sglab::cpu_attention {
namespace {

constexpr int kFewRows = 8;
constexpr int kAhead = 8;  // keys between what is read and what is fetched

#if defined(__AVX512BF16__)
constexpr bool kPairDots = true;
#else
constexpr bool kPairDots = false;
#endif

inline void fetch(const std::uint8_t* row, int bytes) {
  for (int at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
}

// Floats of q times floats of k.
struct FloatDot {
  typedef float Scalar;
  static constexpr int kStep = kLanes;
  static Vec add(Vec sum, const float* q, const std::uint8_t* k, int at) {
    return sum + load(q + at) * load_as<Vec>(k + at * 4);
  }
  static Vec add_rest(Vec sum, const float* q, const std::uint8_t* k, int at, int count) {
    Vec rest = {};
    std::memcpy(&rest, k + at * 4, count * 4);
    return sum + load(q + at) * rest;
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

template <typename Dot>
void dot_scores(const typename Dot::Scalar* q, int q_stride, int rows, const Block& block, int dim, int key_bytes,
                float* scores) {
  for (int j = 0; j < block.count; j += 4) {
    for (int i = j; i < j + 4 && i + kAhead < block.count; ++i) fetch(block.k[i + kAhead], key_bytes);
    int r = 0;
    if constexpr (kAccumulators >= 16) {
      for (; r + 4 <= rows; r += 4) {
        dot_tile<Dot, 4>(q + r * q_stride, q_stride, block.k + j, dim, scores + r * kBlockKeys + j);
      }
    }
    for (; r + 2 <= rows; r += 2) {
      dot_tile<Dot, 2>(q + r * q_stride, q_stride, block.k + j, dim, scores + r * kBlockKeys + j);
    }
    if (r < rows) dot_tile<Dot, 1>(q + r * q_stride, q_stride, block.k + j, dim, scores + r * kBlockKeys + j);
  }
}

// values[row][d ...] = values * shrink + sum over keys of weight * v, for kRows rows and kVecs vectors of dims.
struct FloatValues {
  static constexpr int kStep = kLanes;
  template <int kRows, int kVecs>
  static void add(const std::uint8_t* const* v, int count, int d, const float* weights, float* values, int stride,
                  const float* shrink) {
    Vec sum[kRows][kVecs];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVecs; ++i) sum[r][i] = load(values + r * stride + d + i * kLanes) * shrink[r];
    }
    for (int j = 0; j < count; ++j) {
      Vec row[kVecs];
      for (int i = 0; i < kVecs; ++i) row[i] = load_as<Vec>(v[j] + (d + i * kLanes) * 4);
      for (int r = 0; r < kRows; ++r) {
        for (int i = 0; i < kVecs; ++i) sum[r][i] += row[i] * weights[r * kBlockKeys + j];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kVecs; ++i) store(values + r * stride + d + i * kLanes, sum[r][i]);
    }
  }
};

// bfloat16 rows as they are: a vector's even elements, then its odd ones, so `values` holds them in that order.
struct SplitValues {
  static constexpr int kStep = 2 * kLanes;
  template <int kRows, int kVecs>
  static void add(const std::uint8_t* const* v, int count, int d, const float* weights, float* values, int stride,
                  const float* shrink) {
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

template <typename Values, int kRows, int kVecs>
inline void dot_values_rows(const Block& block, int dim, const float* weights, float* values, int stride,
                            const float* shrink) {
  constexpr int kWide = kVecs * Values::kStep;
  int d = 0;
  for (; d + kWide <= dim; d += kWide) {
    Values::template add<kRows, kVecs>(block.v, block.count, d, weights, values, stride, shrink);
  }
  for (; d + Values::kStep <= dim; d += Values::kStep) {
    Values::template add<kRows, 1>(block.v, block.count, d, weights, values, stride, shrink);
  }
  for (; d < dim; ++d) {  // only floats have a rest
    for (int r = 0; r < kRows; ++r) {
      float sum = values[r * stride + d] * shrink[r];
      for (int j = 0; j < block.count; ++j) {
        sum += load_as<float>(block.v[j] + d * 4) * weights[r * kBlockKeys + j];
      }
      values[r * stride + d] = sum;
    }
  }
}

template <typename Values>
void dot_values(const Block& block, int dim, int rows, const float* weights, float* values, int stride,
                const float* shrink) {
  constexpr int kVecs = kAccumulators * kLanes / Values::kStep;  // for one row
  int r = 0;
  if constexpr (kVecs >= 8) {
    for (; r + 4 <= rows; r += 4) {
      dot_values_rows<Values, 4, kVecs / 4>(block, dim, weights + r * kBlockKeys, values + r * stride, stride,
                                            shrink + r);
    }
  }
  for (; r + 2 <= rows; r += 2) {
    dot_values_rows<Values, 2, kVecs / 2>(block, dim, weights + r * kBlockKeys, values + r * stride, stride,
                                          shrink + r);
  }
  if (r < rows) {
    dot_values_rows<Values, 1, kVecs / 2>(block, dim, weights + r * kBlockKeys, values + r * stride, stride,
                                          shrink + r);
  }
}

// From products to weights 2^(score - top), in place; `top` and `sum` of the row go on.
// Returns the factor of what was summed before.
inline float weigh(const Rows& rows, int r, const Block& block, float* scores, float& top, float& sum) {
  const bool capped = rows.call.cap > 0;
  const Vec first = splat(rows.first_factor[r] * block.k_factor), second = splat(rows.second_factor[r]);
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
    store(scores + j, weight * block.v_factor);
  }
  const float shrink = exp2(top - shift);
  sum = sum * shrink + sum_of(total);
  top = now;
  return shrink;
}

// Scores, weights and values of the rows; and q as the products take it.
struct DotScratch {
  float *scores, *values, *keys_f32, *values_f32, *q;
  int q_stride, stride;

  DotScratch(Arena& arena, const Call& call) {
    q_stride = static_cast<int>(rounded_up(call.qk_dim, 2 * kLanes));
    stride = static_cast<int>(rounded_up(call.v_dim, 2 * kLanes));
    scores = arena.take<float>(kFewRows * kBlockKeys);
    values = arena.take<float>(kFewRows * stride);
    keys_f32 = arena.take<float>(kBlockKeys * call.qk_dim);
    values_f32 = arena.take<float>(kBlockKeys * call.v_dim);
    q = arena.take<float>(kFewRows * q_stride);
  }
};

void run_dots(const Rows& rows, void* memory) {
  const Call& call = rows.call;
  Arena arena(memory);
  const DotScratch scratch(arena, call);
  const int count = rows.unit.rows;
  const bool pairs = kPairDots && all_bf16(call) && call.v_dim % (2 * kLanes) == 0;
  std::uint16_t* const q_pairs = reinterpret_cast<std::uint16_t*>(scratch.q);
  std::memset(scratch.q, 0, kFewRows * scratch.q_stride * 4);
  std::memset(scratch.values, 0, kFewRows * scratch.stride * 4);
  for (int r = 0; r < count; ++r) {
    if (pairs) {
      std::memcpy(q_pairs + r * scratch.q_stride, rows.query(r), call.qk_dim * 2);
    } else {
      widen(call.q_element, rows.query(r), scratch.q + r * scratch.q_stride, call.qk_dim);
    }
  }
  float top[kFewRows], sum[kFewRows] = {}, shrink[kFewRows];
  for (int r = 0; r < kFewRows; ++r) top[r] = -kInfinity;
  Block block;
  for (std::int64_t key = rows.first_key; key < rows.end_key; key += block.count) {
    block.locate(rows, key);
    const int size = element_size(block.source->element);
    if (pairs) {
#if defined(__AVX512BF16__)
      dot_scores<PairDot>(q_pairs, scratch.q_stride, count, block, call.qk_dim, call.qk_dim * size, scratch.scores);
#endif
    } else {
      block.widen_rows(call, scratch.keys_f32, scratch.values_f32);
      const int ahead = size == 4 ? call.qk_dim * size : 0;
      dot_scores<FloatDot>(scratch.q, scratch.q_stride, count, block, call.qk_dim, ahead, scratch.scores);
    }
    for (int r = 0; r < count; ++r) {
      shrink[r] = weigh(rows, r, block, scratch.scores + r * kBlockKeys, top[r], sum[r]);
    }
    if (pairs) {
      dot_values<SplitValues>(block, call.v_dim, count, scratch.scores, scratch.values, scratch.stride, shrink);
    } else {
      dot_values<FloatValues>(block, call.v_dim, count, scratch.scores, scratch.values, scratch.stride, shrink);
    }
  }
  for (int r = 0; r < count; ++r) {
    float* const values = scratch.values + r * scratch.stride;
    if (pairs) {
      float even_first[2 * kLanes];
      for (int d = 0; d < call.v_dim; d += 2 * kLanes) {
        std::memcpy(even_first, values + d, sizeof(even_first));
        for (int i = 0; i < kLanes; ++i) {
          values[d + 2 * i] = even_first[i];
          values[d + 2 * i + 1] = even_first[kLanes + i];
        }
      }
    }
    rows.finish(r, top[r], sum[r], values);
  }
}

}  // namespace
}  // namespace sglab::cpu_attention
