// Few rows, as in decode: a vector holds a row's dims. Scores are sums over lanes; bound by memory, not by
// products.

#pragma once

#include "cpu_attention/isa/rows.hpp"

namespace sglab::cpu_attention {
namespace {

constexpr int kAhead = 8;        // keys between what is read and what is brought near, of one head
constexpr int kDotKeys = 64;     // keys at a time: their values stay near
constexpr int kHeadsBlock = 32;  // and where a unit has several heads
constexpr int kValueKeys = 8;    // keys between two fetches of what comes next: many at once hold up all else

#if defined(__AVX512BF16__)
constexpr bool kPairDots = true;
#else
constexpr bool kPairDots = false;
#endif

// To the second level, for what is read a block later, or near.
template <bool kNear = false>
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

// Of each head's rows, head after head: scores and weights, values, and q as the products take it.
struct DotScratch {
  float *scores, *values, *keys_f32, *values_f32, *q;
  int q_stride, stride;

  DotScratch(Arena& arena, const Call& call) {
    q_stride = static_cast<int>(rounded_up(call.qk_dim, 2 * kLanes));
    stride = static_cast<int>(rounded_up(call.v_dim, 2 * kLanes));
    scores = arena.take<float>(kMostHeads * kFewRows * kBlockKeys);
    values = arena.take<float>(kMostHeads * kFewRows * stride);
    keys_f32 = arena.take<float>(kBlockKeys * call.qk_dim);
    values_f32 = arena.take<float>(kBlockKeys * call.v_dim);
    q = arena.take<float>(kMostHeads * kFewRows * q_stride);
  }
};

// Rows of a unit's heads `first_head` and on: what they have seen so far.
class Dots {
 public:
  Dots(Rows& rows, const DotScratch& scratch)
      : rows_(rows),
        call_(rows.call),
        scratch_(scratch),
        count_(rows.unit.rows),
        heads_(rows.unit.kv_heads),
        pairs_(kPairDots && all_bf16(call_) && call_.v_dim % (2 * kLanes) == 0) {
    const int all = heads_ * count_;
    std::memset(scratch.q, 0, all * scratch.q_stride * 4);
    std::memset(scratch.values, 0, all * scratch.stride * 4);
    for (int h = 0; h < heads_; ++h) {
      rows.kv_head = rows.unit.kv_head + h;
      for (int r = 0; r < count_; ++r) {
        const int at = h * count_ + r;
        top_[at] = -kInfinity, sum_[at] = 0;
        if (pairs_) {
          std::memcpy(q_of<std::uint16_t>(at), rows.query(r), call_.qk_dim * 2);
        } else {
          widen(call_.q_element, rows.query(r), q_of<float>(at), call_.qk_dim);
        }
      }
    }
  }

  // Memory is read all the time and in the order in which it lies, of all heads: while keys are multiplied
  // the block's values are fetched, and while values are added the next block's keys.
  void run() {
    Block blocks[2];
    Block *block = &blocks[0], *next = &blocks[1];
    const int limit = heads_ > 1 ? kHeadsBlock : kDotKeys;
    std::int64_t key = rows_.first_key;
    if (key < rows_.end_key) {
      locate(*block, key, 0, limit);
      for (int j = 0; j < block->count; ++j) fetch(block->k[j], key_bytes(*block));
    }
    while (key < rows_.end_key) {
      const std::int64_t after = key + block->count;
      next->count = 0;
      if (after < rows_.end_key) locate(*next, after, 0, limit);
      if (block->source->element == Element::kE4m3 || block->source->element == Element::kE5m2) {
        for (int h = 0; h < heads_; ++h) {
          locate(*block, key, h, limit);
          block->widen_rows(call_, scratch_.keys_f32, scratch_.values_f32);
          step<FloatDot<Element::kF32>, FloatValues<Element::kF32>>(*block, *next, h, h + 1);
        }
      } else {
        step_of(*block, *next);
      }
      key = after;
      Block* const done = block;
      block = next, next = done;
    }
    for (int h = 0; h < heads_; ++h) {
      rows_.kv_head = rows_.unit.kv_head + h;
      for (int r = 0; r < count_; ++r) {
        const int at = h * count_ + r;
        float* const row = scratch_.values + at * scratch_.stride;
        if (pairs_) interleave(row, call_.v_dim);
        rows_.finish(r, top_[at], sum_[at], row);
      }
    }
  }

 private:
  template <typename Scalar>
  Scalar* q_of(int at) const {
    return reinterpret_cast<Scalar*>(scratch_.q) + at * scratch_.q_stride;
  }

  void locate(Block& block, std::int64_t key, int head, int limit) const {
    rows_.kv_head = rows_.unit.kv_head + head;
    block.locate(rows_, key, limit);
  }

  int key_bytes(const Block& block) const {
    return heads_ * call_.qk_dim * element_size(block.source->element);
  }

  void step_of(const Block& block, const Block& next) {
#if defined(__AVX512BF16__)
    if (pairs_) return step<PairDot, SplitValues>(block, next, 0, heads_);
#endif
    switch (block.source->element) {
      case Element::kF16:
        return step<FloatDot<Element::kF16>, FloatValues<Element::kF16>>(block, next, 0, heads_);
      case Element::kBf16:
        return step<FloatDot<Element::kBf16>, FloatValues<Element::kBf16>>(block, next, 0, heads_);
      default:
        return step<FloatDot<Element::kF32>, FloatValues<Element::kF32>>(block, next, 0, heads_);
    }
  }

  // The block's keys for heads `from` ... `to` - 1; its rows are those of the first.
  template <typename Dot, typename Values>
  void step(const Block& block, const Block& next, int from, int to) {
    const Source& source = *block.source;
    const int value_bytes = block.values_in_keys ? 0 : call_.v_dim * element_size(source.element);
    const int near_bytes = heads_ == 1 ? call_.qk_dim * element_size(source.element) : 0;
    for (int j = 0; j < block.count; j += 4) {
      for (int i = j + kAhead; i < j + kAhead + 4 && i < block.count; ++i)
        fetch<true>(block.k[i], near_bytes);
      for (int h = from; h < to; ++h) {
        const std::uint8_t* k[4];
        for (int i = 0; i < 4; ++i) {
          k[i] = block.k[j + i] + (h - from) * source.k_head;
          fetch(block.v[j + i] + (h - from) * source.v_head, value_bytes);
        }
        dot_scores<Dot>(q_of<typename Dot::Scalar>(h * count_), scratch_.q_stride, count_, k, call_.qk_dim,
                        scratch_.scores + h * count_ * kBlockKeys + j);
      }
    }
    float shrink[kMostHeads * kFewRows], whole[kFewRows];
    for (int r = 0; r < kFewRows; ++r) whole[r] = 1;
    for (int h = from; h < to; ++h) {
      rows_.kv_head = rows_.unit.kv_head + h;
      const Factors factors(rows_, source);
      for (int at = h * count_; at < (h + 1) * count_; ++at) {
        float* const scores = scratch_.scores + at * kBlockKeys;
        shrink[at] = weigh(rows_, at - h * count_, block, factors, scores, top_[at], sum_[at]);
      }
    }
    const int next_bytes = next.count == 0 ? 0 : call_.qk_dim * element_size(next.source->element);
    for (int j = 0; j < block.count; j += kValueKeys) {
      const int count = static_cast<int>(least(kValueKeys, block.count - j));
      for (int h = from; h < to; ++h) {
        for (int i = j; i < j + kValueKeys && i < next.count; ++i) {
          fetch(next.k[i] + h * next.source->k_head, next_bytes);
        }
        const std::uint8_t* v[kValueKeys];
        for (int i = 0; i < count; ++i) v[i] = block.v[j + i] + (h - from) * source.v_head;
        dot_values<Values>(v, count, call_.v_dim, count_, scratch_.scores + h * count_ * kBlockKeys + j,
                           scratch_.values + h * count_ * scratch_.stride, scratch_.stride,
                           j == 0 ? shrink + h * count_ : whole);
      }
    }
  }

  Rows& rows_;
  const Call& call_;
  const DotScratch& scratch_;
  const int count_, heads_;
  const bool pairs_;
  float top_[kMostHeads * kFewRows], sum_[kMostHeads * kFewRows];  // of the softmax
};

void run_dots(Rows& rows, void* memory) {
  Arena arena(memory);
  const DotScratch scratch(arena, rows.call);
  Dots(rows, scratch).run();
}

}  // namespace
}  // namespace sglab::cpu_attention
