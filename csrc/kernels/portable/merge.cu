// Merging attention states: (V, LSE) over disjoint sets of keys become (V, LSE) over their union.
//
//   top = max LSE_i    w_i = base^(LSE_i − top)    V = Σ w_i · V_i / Σ w_i    LSE = top + log_base Σ w_i
//
// Rules, which agree on finite LSE up to the base:
//   base2       FlashInfer's merge_state and merge_states. Base 2. No state but LSE = −inf: V = 0, LSE = −inf
//   natural     the same with natural logarithms
//   v2          SGLang's merge_state_v2. Natural. +inf counts as −inf; all −inf gives NaN
//   v2_guarded  as v2, but all −inf gives V = 0, LSE = −inf, and a V whose LSE is −inf is not looked at
//
// A row is one token's head. A group of lanes of one warp owns it, 16 bytes per lane and step, so that an
// output may be the memory of an input: the thread that overwrites an element has read it, and LSE is written
// after the whole group has read.
#include "element.cuh"

namespace {

enum class Rule { kBase2, kNatural, kV2, kV2Guarded };

__device__ constexpr bool is_v2(Rule rule) {
  return rule == Rule::kV2 || rule == Rule::kV2Guarded;
}

constexpr int kThreads = 128;
constexpr int kCtasPerSm = 6;  // of merge_states: enough loads in flight, at 80 registers per thread

template <Rule kRule>
__device__ float read_lse(float s) {
  return is_v2(kRule) && s == INFINITY ? -INFINITY : s;
}

template <Rule kRule>
__device__ float weight_of(float s, float top) {
  const float below = s - top;
  if (is_v2(kRule)) return expf(below);
  // −inf − −inf and inf − inf are NaN, which fmaxf turns into −inf, weight 0
  return kRule == Rule::kBase2 ? exp2f(fmaxf(below, -INFINITY)) : expf(fmaxf(below, -INFINITY));
}

template <Rule kRule>
__device__ float top_or_zero(float top) {
  return kRule == Rule::kV2Guarded && top == -INFINITY ? 0.0f : top;
}

template <Rule kRule>
__device__ float inverse_of(float total) {
  if (kRule == Rule::kV2) return 1.0f / total;
  return total > 0.0f ? 1.0f / total : total == 0.0f ? 0.0f : total;  // NaN stays
}

template <Rule kRule>
__device__ float lse_of(float top, float total) {
  return top + (kRule == Rule::kBase2 ? log2f(total) : logf(total));
}

// sum += weight · v, except where the rule says that v is not to be looked at
template <Rule kRule>
__device__ float add(float sum, float weight, float v) {
  return kRule == Rule::kV2Guarded && weight == 0.0f ? sum : fmaf(weight, v, sum);
}

// The row that this thread's group owns, and the group: lanes lane … of `lanes`, a power of two up to 32.
struct Group {
  long long row;
  int lane;
  __device__ explicit Group(int lanes)
      : row((static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x) / lanes),
        lane(threadIdx.x % lanes) {}
};

template <class T, int N, Rule kRule>
__device__ void merge_pair(const T* v_a, const float* s_a, const T* v_b, const float* s_b, const bool* mask,
                           T* v_out, float* s_out, long long rows, int heads, int head_dim, int lanes) {
  using Vector = portable::Pack<T, N>;
  const Group group(lanes);
  const bool merges = group.row < rows && (mask == nullptr || mask[group.row / heads]);
  float total = 0.0f, top = 0.0f;
  if (merges) {
    const float a = read_lse<kRule>(s_a[group.row]), b = read_lse<kRule>(s_b[group.row]);
    top = top_or_zero<kRule>(fmaxf(a, b));
    float weight_a = weight_of<kRule>(a, top), weight_b = weight_of<kRule>(b, top);
    total = weight_a + weight_b;
    const float inverse = inverse_of<kRule>(total);
    weight_a *= inverse, weight_b *= inverse;
    for (int column = group.lane * N; column < head_dim; column += lanes * N) {
      const long long at = group.row * head_dim + column;
      const Vector x = *reinterpret_cast<const Vector*>(v_a + at),
                   y = *reinterpret_cast<const Vector*>(v_b + at);
      Vector merged;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        float sum = add<kRule>(0.0f, weight_a, portable::to_float(x.element[i]));
        sum = add<kRule>(sum, weight_b, portable::to_float(y.element[i]));
        merged.element[i] = portable::from_float<T>(sum);
      }
      *reinterpret_cast<Vector*>(v_out + at) = merged;
    }
  }
  __syncwarp();  // s_out may be s_a or s_b, which the group's other lanes have read by now
  if (merges && group.lane == 0) s_out[group.row] = lse_of<kRule>(top, total);
}

// Loads one column vector of states first … first + kInFlight, and their LSE.
template <class T, int N, int kInFlight>
struct States {
  portable::Pack<T, N> v[kInFlight];
  float s[kInFlight];

  __device__ void load(const T* v_column, const float* s_row, int first, int states, long long heads,
                       int head_dim) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      s[j] = -INFINITY;
      v[j] = {};
      if (first + j >= states) continue;
      s[j] = s_row[(first + j) * heads];
      v[j] = *reinterpret_cast<const portable::Pack<T, N>*>(v_column + (first + j) * heads * head_dim);
    }
  }
};

// v [tokens, states, heads, head_dim], s [tokens, states, heads]. The states are walked once, with a running
// maximum.
template <class T, int N, Rule kRule>
__device__ void merge_states(const T* v, const float* s, T* v_out, float* s_out, long long rows, int states,
                             int heads, int head_dim, int lanes) {
  constexpr int kInFlight = 4;
  const Group group(lanes);
  if (group.row >= rows) return;
  const long long first = (group.row / heads) * states * heads + group.row % heads;  // row of state 0
  for (int column = group.lane * N; column < head_dim; column += lanes * N) {
    float sum[N] = {}, total = 0.0f, top = -INFINITY;
    for (int i = 0; i < states; i += kInFlight) {
      States<T, N, kInFlight> at;
      at.load(v + first * head_dim + column, s + first, i, states, heads, head_dim);
      float higher = top;
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) higher = fmaxf(higher, at.s[j]);
      const float scale = weight_of<kRule>(top, higher);
      top = higher;
      total *= scale;
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] *= scale;
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        if (i + j >= states) break;
        const float weight = weight_of<kRule>(at.s[j], top);
        total += weight;
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] = fmaf(weight, portable::to_float(at.v[j].element[k]), sum[k]);
      }
    }
    const float inverse = inverse_of<kRule>(total);
    portable::Pack<T, N> merged;
#pragma unroll
    for (int k = 0; k < N; ++k) merged.element[k] = portable::from_float<T>(sum[k] * inverse);
    *reinterpret_cast<portable::Pack<T, N>*>(v_out + group.row * head_dim + column) = merged;
    if (column == 0) s_out[group.row] = lse_of<kRule>(top, total);
  }
}

}  // namespace

// grid ceil(rows · lanes / 128), 128 threads; rows = tokens · heads; lanes: a power of two up to 32.
// Names ending in 1 take any head_dim and alignment, one element per lane and step; the others 16 bytes, so
// that rows must be multiples of 16 bytes at multiples of 16 bytes.
#define SGLAB_MERGE_PAIR(NAME, T, N, RULE)                                                             \
  extern "C" __global__ void __launch_bounds__(kThreads)                                               \
      NAME(const T* v_a, const float* s_a, const T* v_b, const float* s_b, const bool* mask, T* v_out, \
           float* s_out, long long rows, int heads, int head_dim, int lanes) {                         \
    merge_pair<T, N, RULE>(v_a, s_a, v_b, s_b, mask, v_out, s_out, rows, heads, head_dim, lanes);      \
  }
#define SGLAB_MERGE_STATES(NAME, T, N, RULE)                                                          \
  extern "C" __global__ void __launch_bounds__(kThreads, kCtasPerSm)                                  \
      NAME(const T* v, const float* s, T* v_out, float* s_out, long long rows, int states, int heads, \
           int head_dim, int lanes) {                                                                 \
    merge_states<T, N, RULE>(v, s, v_out, s_out, rows, states, heads, head_dim, lanes);               \
  }
#define SGLAB_MERGES(SUFFIX, T, N)                                          \
  SGLAB_MERGE_PAIR(merge_state_##SUFFIX, T, N, Rule::kBase2)                \
  SGLAB_MERGE_PAIR(merge_state_v2_##SUFFIX, T, N, Rule::kV2)                \
  SGLAB_MERGE_PAIR(merge_state_v2_guarded_##SUFFIX, T, N, Rule::kV2Guarded) \
  SGLAB_MERGE_STATES(merge_states_##SUFFIX, T, N, Rule::kBase2)             \
  SGLAB_MERGE_STATES(merge_states_natural_##SUFFIX, T, N, Rule::kNatural)
SGLAB_MERGES(f32, float, 4)
SGLAB_MERGES(f16, __half, 8)
SGLAB_MERGES(bf16, __nv_bfloat16, 8)
SGLAB_MERGES(f32_1, float, 1)
SGLAB_MERGES(f16_1, __half, 1)
SGLAB_MERGES(bf16_1, __nv_bfloat16, 1)
