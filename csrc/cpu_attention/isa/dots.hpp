// Few rows, as in decode: a vector holds a row's dims. Scores are sums over lanes; bound by memory, not by
// products.

#pragma once

#include "cpu_attention/isa/dot_scores.hpp"
#include "cpu_attention/isa/dot_values.hpp"
#include "cpu_attention/isa/rows.hpp"

namespace sglab::cpu_attention {
namespace {

constexpr int kAhead = 8;        // keys between what is read and what is brought near, of one head
constexpr int kDotKeys = 64;     // keys at a time: their values stay near
constexpr int kHeadsBlock = 32;  // and where a unit has several heads
constexpr int kValueKeys = 8;    // keys between two fetches of what comes next: many at once hold up all else

// To the second level, for what is read a block later, or near.
template <bool kNear = false>
inline void fetch(const std::uint8_t* row, int bytes) {
  for (int at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, kNear ? 3 : 2);
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
