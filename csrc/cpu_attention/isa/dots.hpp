// Few rows, as in decode: a vector holds a row's dims. Scores are sums over lanes; bound by memory, not by
// products.

#pragma once

#include "cpu_attention/isa/rows.hpp"

namespace sglab::cpu_attention {
namespace {

constexpr int kAhead = 8;        // keys between what is read and what is fetched, of one head
constexpr int kDotKeys = 64;     // keys at a time: their values stay near
constexpr int kHeadsBlock = 32;  // and where a unit has several heads

#if defined(__AVX512BF16__)
constexpr bool kPairDots = true;
#else
constexpr bool kPairDots = false;
#endif

// Near for what comes next, else to the second level.
template <bool kNear>
inline void fetch(const std::uint8_t* row, int bytes) {
  for (int at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, kNear ? 3 : 2);
}

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

template <typename Dot>
void dot_scores(const typename Dot::Scalar* q, int q_stride, int rows, const Block& block, int dim,
                int key_bytes, int value_bytes, std::int64_t next_head, float* scores) {
  for (int j = 0; j < block.count; j += 4) {
    for (int i = j; i < j + 4; ++i) {
      if (next_head != 0) {
        fetch<false>(block.k[i] + next_head, key_bytes);
      } else if (i + kAhead < block.count) {
        fetch<true>(block.k[i + kAhead], key_bytes);
      }
      fetch<false>(block.v[i], value_bytes);
    }
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
inline void dot_values_rows(const Block& block, int d, int dim, const float* weights, float* values,
                            int stride, const float* shrink) {
  constexpr int kWide = kVecs * Values::kStep;
  for (; d + kWide <= dim; d += kWide) {
    Values::template add<kRows, kVecs>(block.v, block.count, d, weights, values, stride, shrink);
  }
  if constexpr (kVecs > 1) {
    dot_values_rows<Values, kRows, kVecs / 2>(block, d, dim, weights, values, stride, shrink);
  } else if (d < dim) {
    for (int r = 0; r < kRows; ++r) {
      Values::add_rest(block.v, block.count, d, dim - d, weights + r * kBlockKeys, values + r * stride,
                       shrink[r]);
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
      dot_values_rows<Values, 4, kVecs / 4>(block, 0, dim, weights + r * kBlockKeys, values + r * stride,
                                            stride, shrink + r);
    }
  }
  for (; r + 2 <= rows; r += 2) {
    dot_values_rows<Values, 2, kVecs / 2>(block, 0, dim, weights + r * kBlockKeys, values + r * stride,
                                          stride, shrink + r);
  }
  if (r < rows) {
    dot_values_rows<Values, 1, kVecs / 2>(block, 0, dim, weights + r * kBlockKeys, values + r * stride,
                                          stride, shrink + r);
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

// Scores, weights and values of the rows; and q as the products take it.
struct DotScratch {
  float *scores, *values, *keys_f32, *values_f32, *q;
  int q_stride, stride;

  DotScratch(Arena& arena, const Call& call) {
    q_stride = static_cast<int>(rounded_up(call.qk_dim, 2 * kLanes));
    stride = static_cast<int>(rounded_up(call.v_dim, 2 * kLanes));
    scores = arena.take<float>(kFewRows * kBlockKeys);
    values = arena.take<float>(kMostHeads * kFewRows * stride);
    keys_f32 = arena.take<float>(kBlockKeys * call.qk_dim);
    values_f32 = arena.take<float>(kBlockKeys * call.v_dim);
    q = arena.take<float>(kMostHeads * kFewRows * q_stride);
  }
};

// Softmax so far, of a head's rows.
struct DotState {
  float top[kFewRows], sum[kFewRows];
};

void run_dots(Rows& rows, void* memory) {
  const Call& call = rows.call;
  Arena arena(memory);
  const DotScratch scratch(arena, call);
  const int count = rows.unit.rows, first_head = rows.unit.kv_head, heads = rows.unit.kv_heads;
  const bool pairs = kPairDots && all_bf16(call) && call.v_dim % (2 * kLanes) == 0;
  std::memset(scratch.q, 0, heads * kFewRows * scratch.q_stride * 4);
  std::memset(scratch.values, 0, heads * kFewRows * scratch.stride * 4);
  DotState states[kMostHeads];
  for (int h = 0; h < heads; ++h) {
    rows.kv_head = first_head + h;
    for (int r = 0; r < count; ++r) {
      float* const row = scratch.q + (h * kFewRows + r) * scratch.q_stride;
      states[h].top[r] = -kInfinity, states[h].sum[r] = 0;
      if (pairs) {
        std::memcpy(reinterpret_cast<std::uint16_t*>(scratch.q + h * kFewRows * scratch.q_stride) +
                        r * scratch.q_stride,
                    rows.query(r), call.qk_dim * 2);
      } else {
        widen(call.q_element, rows.query(r), row, call.qk_dim);
      }
    }
  }
  float shrink[kFewRows];
  const float* q = nullptr;  // of the head at hand, as its values are
  float* values = nullptr;
  std::int64_t next_head = 0;
  const auto scores_as = [&]<typename Dot>(const Block& block) {
    const int size = element_size(block.source->element);
    dot_scores<Dot>(reinterpret_cast<const typename Dot::Scalar*>(q), scratch.q_stride, count, block,
                    call.qk_dim, call.qk_dim * size, block.values_in_keys ? 0 : call.v_dim * size, next_head,
                    scratch.scores);
  };
  const auto values_as = [&]<typename Values>(const Block& block) {
    dot_values<Values>(block, call.v_dim, count, scratch.scores, values, scratch.stride, shrink);
  };
  const auto scores_of = [&](Block& block) {
#if defined(__AVX512BF16__)
    if (pairs) return scores_as.template operator()<PairDot>(block);
#endif
    switch (block.source->element) {
      case Element::kF32:
        return scores_as.template operator()<FloatDot<Element::kF32>>(block);
      case Element::kF16:
        return scores_as.template operator()<FloatDot<Element::kF16>>(block);
      case Element::kBf16:
        return scores_as.template operator()<FloatDot<Element::kBf16>>(block);
      default:
        block.widen_rows(call, scratch.keys_f32, scratch.values_f32);
        return scores_as.template operator()<FloatDot<Element::kF32>>(block);
    }
  };
  const auto values_of = [&](const Block& block) {
    if (pairs) return values_as.template operator()<SplitValues>(block);
    switch (block.source->element) {
      case Element::kF16:
        return values_as.template operator()<FloatValues<Element::kF16>>(block);
      case Element::kBf16:
        return values_as.template operator()<FloatValues<Element::kBf16>>(block);
      default:
        return values_as.template operator()<FloatValues<Element::kF32>>(block);
    }
  };
  Block block;
  const int limit = heads > 1 ? kHeadsBlock : kDotKeys;
  for (std::int64_t key = rows.first_key; key < rows.end_key; key += block.count) {
    for (int h = 0; h < heads; ++h) {
      rows.kv_head = first_head + h;
      block.locate(rows, key, limit);
      q = scratch.q + h * kFewRows * scratch.q_stride;
      values = scratch.values + h * kFewRows * scratch.stride;
      next_head = h + 1 < heads ? block.source->k_head : 0;
      scores_of(block);
      for (int r = 0; r < count; ++r) {
        shrink[r] =
            weigh(rows, r, block, scratch.scores + r * kBlockKeys, states[h].top[r], states[h].sum[r]);
      }
      values_of(block);
    }
  }
  for (int h = 0; h < heads; ++h) {
    rows.kv_head = first_head + h;
    for (int r = 0; r < count; ++r) {
      float* const row = scratch.values + (h * kFewRows + r) * scratch.stride;
      if (pairs) interleave(row, call.v_dim);
      rows.finish(r, states[h].top[r], states[h].sum[r], row);
    }
  }
}

}  // namespace
}  // namespace sglab::cpu_attention
