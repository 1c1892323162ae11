// Many rows, as in prefill and MLA: a lane per row. Scores and values are kept with the rows running fastest,
// so that softmax needs no sums across lanes, and the keys and values are read as they lie in the pool, an
// element at a time that serves all rows.

#pragma once

#include "cpu_attention/isa/dots.hpp"
#include "cpu_attention/isa/tiles.hpp"

namespace sglab::cpu_attention {
namespace {

#if defined(__AVX512BF16__) || defined(SGLAB_TILES)
constexpr bool kPairs = true;  // products of pairs of bfloat16
#else
constexpr bool kPairs = false;
#endif

struct FloatProduct {
  typedef float Scalar;
  typedef Vec Packed;
  static Vec add(Vec sum, Vec rows, float one) { return sum + rows * one; }
};

#if defined(__AVX512BF16__)
// An element is two bfloat16 that follow each other along the sum.
struct PairProduct {
  typedef std::uint32_t Scalar;
  typedef Bits Packed;
  static Vec add(Vec sum, Bits rows, std::uint32_t one) {
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)(__m512i)rows,
                                 (__m512bh)_mm512_set1_epi32(static_cast<int>(one)));
  }
};
#endif

constexpr int kTileVecs = 2;
constexpr int kTileKeys = kAccumulators / kTileVecs;

// scores[key][row] of kKeys keys and kVecs vectors of rows; q is [step][row].
template <typename P, int kKeys, int kVecs>
inline void score_tile(const std::uint8_t* const* k, const typename P::Scalar* q, int rows, int steps,
                       float* scores) {
  Vec sum[kKeys][kVecs] = {};
  const std::uint8_t* key[kKeys];
  for (int j = 0; j < kKeys; ++j) key[j] = k[j];
  for (int s = 0; s < steps; ++s) {
    typename P::Packed row[kVecs];
    for (int i = 0; i < kVecs; ++i) row[i] = load_as<typename P::Packed>(q + s * rows + i * kLanes);
    for (int j = 0; j < kKeys; ++j) {
      const auto one = load_as<typename P::Scalar>(key[j] + s * sizeof(typename P::Scalar));
      for (int i = 0; i < kVecs; ++i) sum[j][i] = P::add(sum[j][i], row[i], one);
    }
  }
  for (int j = 0; j < kKeys; ++j) {
    for (int i = 0; i < kVecs; ++i) store(scores + j * rows + i * kLanes, sum[j][i]);
  }
}

// values[dim][row] = values * shrink[row] + sum over steps of v[step][dim] * weights[step][row].
template <typename P, int kDims, int kVecs>
inline void value_tile(const std::uint8_t* const* v, int d, const typename P::Scalar* weights, int rows,
                       int steps, const float* shrink, float* values) {
  Vec sum[kDims][kVecs];
  for (int i = 0; i < kVecs; ++i) {
    const Vec factor = load(shrink + i * kLanes);
    for (int e = 0; e < kDims; ++e) sum[e][i] = load(values + e * rows + i * kLanes) * factor;
  }
  for (int s = 0; s < steps; ++s) {
    typename P::Packed row[kVecs];
    for (int i = 0; i < kVecs; ++i) row[i] = load_as<typename P::Packed>(weights + s * rows + i * kLanes);
    const std::uint8_t* const from = v[s] + d * sizeof(typename P::Scalar);
    for (int e = 0; e < kDims; ++e) {
      const auto one = load_as<typename P::Scalar>(from + e * sizeof(typename P::Scalar));
      for (int i = 0; i < kVecs; ++i) sum[e][i] = P::add(sum[e][i], row[i], one);
    }
  }
  for (int e = 0; e < kDims; ++e) {
    for (int i = 0; i < kVecs; ++i) store(values + e * rows + i * kLanes, sum[e][i]);
  }
}

template <typename P, int kVecs>
inline void score_columns(const Block& block, const typename P::Scalar* q, int rows, int steps,
                          float* scores) {
  for (int j = 0; j < block.count; j += kTileKeys) {  // a few more than there are: those are not read
    score_tile<P, kTileKeys, kVecs>(block.k + j, q, rows, steps, scores + j * rows);
  }
}

template <typename P>
void lane_scores(const Block& block, const typename P::Scalar* q, int rows, int steps, float* scores) {
  int c = 0;
  for (; c + kTileVecs * kLanes <= rows; c += kTileVecs * kLanes) {
    score_columns<P, kTileVecs>(block, q + c, rows, steps, scores + c);
  }
  if (c < rows) score_columns<P, 1>(block, q + c, rows, steps, scores + c);
}

template <typename P, int kVecs>
inline void value_columns(const std::uint8_t* const* v, int dims, const typename P::Scalar* weights, int rows,
                          int steps, const float* shrink, float* values) {
  int d = 0;
  for (; d + kTileKeys <= dims; d += kTileKeys) {
    value_tile<P, kTileKeys, kVecs>(v, d, weights, rows, steps, shrink, values + d * rows);
  }
  for (; d < dims; ++d) value_tile<P, 1, kVecs>(v, d, weights, rows, steps, shrink, values + d * rows);
}

template <typename P>
void lane_values(const std::uint8_t* const* v, int dims, const typename P::Scalar* weights, int rows,
                 int steps, const float* shrink, float* values) {
  int c = 0;
  for (; c + kTileVecs * kLanes <= rows; c += kTileVecs * kLanes) {
    value_columns<P, kTileVecs>(v, dims, weights + c, rows, steps, shrink + c, values + c);
  }
  if (c < rows) value_columns<P, 1>(v, dims, weights + c, rows, steps, shrink + c, values + c);
}

// What one vector of rows knows of softmax so far.
struct LaneState {
  float top[kUnitRows], sum[kUnitRows], shrink[kUnitRows];
};

// From products to weights, in place, for the vector of rows that starts at c.
inline void weigh_lanes(const Rows& rows, int stride, int c, const Block& block, float* scores,
                        LaneState& state) {
  const bool capped = rows.call.cap > 0;
  const Factors factors(rows, *block.source);
  const Vec first = load(rows.first_factor + c) * factors.k, second = load(rows.second_factor + c);
  const Ints low = load_as<Ints>(rows.low + c), high = load_as<Ints>(rows.high + c);
  const bool whole = rows.all_visible(block.first, block.first + block.count);
  const std::uint8_t* masks[kLanes];
  for (int i = 0; i < kLanes; ++i)
    masks[i] = c + i < rows.unit.rows ? rows.mask(c + i, block.first) : nullptr;
  const bool masked = masks[0] != nullptr;
  const Vec before = load(state.top + c);
  Vec top = before;
  for (int j = 0; j < block.count; ++j) {
    float* const at = scores + j * stride + c;
    Vec score = scored(load(at), first, second, capped);
    if (!whole) {
      const Ints key = Ints{} + static_cast<std::int32_t>(block.first + j);
      Ints seen = (key >= low) & (key < high);
      if (masked) {
        for (int i = 0; i < kLanes; ++i) seen[i] = masks[i] == nullptr || masks[i][j] != 0 ? seen[i] : 0;
      }
      score = select(seen, score, splat(-kInfinity));
    }
    store(at, score);
    top = larger(score, top);
  }
  const Vec shift = select(top == splat(-kInfinity), Vec{}, top);
  Vec total = {};
  for (int j = 0; j < block.count; ++j) {
    float* const at = scores + j * stride + c;
    const Vec weight = exp2(load(at) - shift);
    total += weight;
    store(at, weight * factors.v);
  }
  const Vec shrink = exp2(before - shift);
  store(state.shrink + c, shrink);
  store(state.sum + c, load(state.sum + c) * shrink + total);
  store(state.top + c, top);
}

// Weights [key][row] as pairs of bfloat16 [key / 2][row], padded with a zero key; in place.
inline void pair_weights(float* scores, int rows, int count, int steps) {
  std::uint32_t* const pairs = reinterpret_cast<std::uint32_t*>(scores);
  for (int s = 0; s < steps; ++s) {
    for (int c = 0; c < rows; c += kLanes) {
      const Bits even = 2 * s < count ? rounded_bf16(load(scores + 2 * s * rows + c)) : Bits{};
      const Bits odd = 2 * s + 1 < count ? rounded_bf16(load(scores + (2 * s + 1) * rows + c)) : Bits{};
      store(pairs + s * rows + c, even | odd << 16);
    }
  }
}

// Values of keys 2 s and 2 s + 1 as pairs [s][dim].
inline void pair_values(const Block& block, int dims, std::uint32_t* pairs, const std::uint8_t** rows) {
  const int steps = (block.count + 1) / 2;
  for (int s = 0; s < steps; ++s) {
    std::uint32_t* const to = pairs + s * dims;
    const std::uint8_t* const even = block.v[2 * s];
    const std::uint8_t* const odd = block.v[2 * s + 1];  // after the last key: any, its weight is 0
    int d = 0;
    for (; d + kLanes <= dims; d += kLanes) {
      const Bits low = __builtin_convertvector(load_as<Halves>(even + d * 2), Bits);
      store(to + d, low | __builtin_convertvector(load_as<Halves>(odd + d * 2), Bits) << 16);
    }
    for (; d < dims; ++d) {
      to[d] = load_as<std::uint16_t>(even + d * 2) | std::uint32_t{load_as<std::uint16_t>(odd + d * 2)} << 16;
    }
    rows[s] = reinterpret_cast<const std::uint8_t*>(to);
  }
}

struct LaneScratch {
  float *scores, *values, *q, *keys_f32, *values_f32;
  std::uint32_t* pairs;
  LaneState* state;
  TileScratch tiles;

  LaneScratch(Arena& arena, const Call& call) : tiles(arena, call) {
    scores = arena.take<float>((kBlockKeys + 8) * kUnitRows);
    values = arena.take<float>(rounded_up(call.v_dim, 16) * kUnitRows);
    q = arena.take<float>(rounded_up(call.qk_dim, 32) * kUnitRows);
    keys_f32 = arena.take<float>(kBlockKeys * call.qk_dim);
    values_f32 = arena.take<float>(kBlockKeys * call.v_dim);
    pairs = arena.take<std::uint32_t>(kBlockKeys / 2 * call.v_dim);
    state = arena.take<LaneState>(1);
  }
};

void run_lanes(Rows& rows, void* memory) {
  const Call& call = rows.call;
  Arena arena(memory);
  const LaneScratch scratch(arena, call);
  const int count = rows.unit.rows, stride = static_cast<int>(rounded_up(count, kRowStep));
  const bool pairs = kPairs && all_bf16(call);
  for (int r = count; r < stride; ++r) {  // rows that are not there see what all see
    rows.low[r] = static_cast<std::int32_t>(rows.seen_by_all);
    rows.high[r] = static_cast<std::int32_t>(rows.seen_by_all_end);
    rows.first_factor[r] = rows.second_factor[r] = 0;
  }
  LaneState& state = *scratch.state;
  for (int r = 0; r < stride; ++r) state.top[r] = -kInfinity, state.sum[r] = 0;
  std::memset(scratch.values, 0, rounded_up(call.v_dim, 16) * stride * 4);
  std::memset(scratch.q, 0, rounded_up(call.qk_dim, 32) * stride * 4);
  std::uint32_t* const q_pairs = reinterpret_cast<std::uint32_t*>(scratch.q);
  for (int r = 0; r < count; ++r) {
    const std::uint8_t* const from = rows.query(r);
    if (pairs) {
      for (int s = 0; s < call.qk_dim / 2; ++s)
        q_pairs[s * stride + r] = load_as<std::uint32_t>(from + s * 4);
    } else {
      float* const row = scratch.keys_f32;
      widen(call.q_element, from, row, call.qk_dim);
      for (int d = 0; d < call.qk_dim; ++d) scratch.q[d * stride + r] = row[d];
    }
  }
  Block block;
  for (std::int64_t key = rows.first_key; key < rows.end_key; key += block.count) {
    block.locate(rows, key);
    if (pairs) {
#if defined(SGLAB_TILES)
      scratch.tiles.scores(block, q_pairs, stride, call.qk_dim, scratch.scores);
#elif defined(__AVX512BF16__)
      lane_scores<PairProduct>(block, q_pairs, stride, call.qk_dim / 2, scratch.scores);
#endif
    } else {
      block.widen_rows(call, scratch.keys_f32, scratch.values_f32);
      lane_scores<FloatProduct>(block, scratch.q, stride, call.qk_dim, scratch.scores);
    }
    for (int c = 0; c < stride; c += kLanes) weigh_lanes(rows, stride, c, block, scratch.scores, state);
    if (pairs) {
#if defined(SGLAB_TILES)
      const int steps = static_cast<int>(rounded_up(block.count, 32)) / 2;
      pair_weights(scratch.scores, stride, block.count, steps);
      scratch.tiles.values(block, reinterpret_cast<const std::uint32_t*>(scratch.scores), stride, call.v_dim,
                           state.shrink, scratch.values);
#elif defined(__AVX512BF16__)
      const int steps = (block.count + 1) / 2;
      const std::uint8_t* value_rows[kBlockKeys / 2];
      pair_weights(scratch.scores, stride, block.count, steps);
      pair_values(block, call.v_dim, scratch.pairs, value_rows);
      lane_values<PairProduct>(value_rows, call.v_dim, reinterpret_cast<const std::uint32_t*>(scratch.scores),
                               stride, steps, state.shrink, scratch.values);
#endif
    } else {
      lane_values<FloatProduct>(block.v, call.v_dim, scratch.scores, stride, block.count, state.shrink,
                                scratch.values);
    }
  }
  float* const row = scratch.keys_f32;
  float* const room = call.v_dim <= call.qk_dim ? row : scratch.values_f32;
  for (int r = 0; r < count; ++r) {
    for (int d = 0; d < call.v_dim; ++d) room[d] = scratch.values[d * stride + r];
    rows.finish(r, state.top[r], state.sum[r], room);
  }
}

std::size_t scratch_bytes(const Call& call) {
  Arena few(nullptr), many(nullptr);
  const DotScratch dots(few, call);
  const LaneScratch lanes(many, call);
  return static_cast<std::size_t>(most(few.used(), many.used()));
}

void run_unit(const Call& call, const Unit& unit, void* scratch) {
  Rows rows(call, unit);
  if (unit.rows <= kFewRows) {
    run_dots(rows, scratch);
  } else {
    run_lanes(rows, scratch);
  }
}

}  // namespace
}  // namespace sglab::cpu_attention
