// Split-KV combine: the partial results of one request's splits become its result.
//
//   lse = log2 Σ 2^lse_i        out = Σ 2^(lse_i − lse) · out_i
//
// A row is one head of one request. Few splits: a warp per row, four rows per CTA. Many: four warps share a
// row, a quarter of the columns each. A split whose lse is −inf has seen no token, and its row may hold
// anything. If all are, out = 0 and lse = −inf.
#include "element.cuh"

namespace {

constexpr int kColumns = 512;
constexpr int kWarps = 4;
constexpr int kMaxSplits = 256;

__device__ float warp_max(float x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, lanes));
  return x;
}
__device__ float warp_sum(float x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffff, x, lanes);
  return x;
}

// Fills weights[0 … splits) with 2^(lse_i − lse) and returns lse. All of a warp.
__device__ float weigh(const float* partial_lse, int stride, int splits, float* weights) {
  const int lane = threadIdx.x % 32;
  float top = -INFINITY;
  for (int i = lane; i < splits; i += 32) {
    weights[i] = partial_lse[static_cast<long long>(i) * stride];
    top = fmaxf(top, weights[i]);
  }
  top = warp_max(top);
  if (top == -INFINITY) top = 0.0f;  // no split has a token: every weight below becomes 0, not NaN
  float sum = 0.0f;
  for (int i = lane; i < splits; i += 32) sum += exp2f(weights[i] - top);
  const float lse = top + log2f(warp_sum(sum));
  for (int i = lane; i < splits; i += 32) weights[i] = lse == -INFINITY ? 0.0f : exp2f(weights[i] - lse);
  __syncwarp();  // every lane reads every weight
  return lse;
}

// One lane's columns of one row: kVectors times 4, 128 apart.
template <int kVectors, int kInFlight>
struct Columns {
  const float* row;        // of the first split
  long long split_stride;  // floats
  int splits;
  float4 sum[kVectors]{};
  float4 loaded[kInFlight][kVectors];

  // Requests splits i … i + kInFlight.
  __device__ void load(int i) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (i + j >= splits) return;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        loaded[j][v] = __ldcs(reinterpret_cast<const float4*>(row + (i + j) * split_stride + 128 * v));
      }
    }
  }

  __device__ void add(int i, const float* weights) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (i + j >= splits) return;
      const float weight = weights[i + j];
      if (weight == 0.0f) continue;  // the row may be NaN
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        sum[v].x = fmaf(weight, loaded[j][v].x, sum[v].x);
        sum[v].y = fmaf(weight, loaded[j][v].y, sum[v].y);
        sum[v].z = fmaf(weight, loaded[j][v].z, sum[v].z);
        sum[v].w = fmaf(weight, loaded[j][v].w, sum[v].w);
      }
    }
  }
};

template <class Element, int kWarpsPerRow>
__device__ void combine(const float* partial_out, const float* partial_lse, const int* requests,
                        const int* slot_indptr, const int* partial_count, Element* out,
                        long long out_stride_request, long long out_stride_head, float* lse, int num_heads,
                        float lse_unit) {
  constexpr int kVectors = kWarps / kWarpsPerRow;
  constexpr int kInFlight = 8 / kVectors;
  __shared__ float weights[kWarps][kMaxSplits];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.x * (kWarps / kWarpsPerRow) + warp / kWarpsPerRow;
  const int column = (warp % kWarpsPerRow * 32 + lane) * 4;
  const int request = requests[blockIdx.y];
  const int first = slot_indptr[blockIdx.y];
  int splits = slot_indptr[blockIdx.y + 1] - first;
  if (head >= num_heads) return;
  // The plan, read above, is older than the attention kernel; the partials, read below, are its work.
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (partial_count) splits = partial_count[request];
  if (splits == 0) return;

  const long long first_row = static_cast<long long>(first) * num_heads + head;
  Columns<kVectors, kInFlight> columns{partial_out + first_row * kColumns + column,
                                       static_cast<long long>(num_heads) * kColumns, splits};
  columns.load(0);  // on their way while the weights are made
  const float total = weigh(partial_lse + first_row, num_heads, splits, weights[warp]);
  if (lse && threadIdx.x % (32 * kWarpsPerRow) == 0) {
    lse[static_cast<long long>(request) * num_heads + head] = total * lse_unit;
  }
  for (int i = 0;;) {
    columns.add(i, weights[warp]);
    i += kInFlight;
    if (i >= splits) break;
    columns.load(i);
  }

  using Four = portable::Pack<Element, 4>;
  Element* target = out + request * out_stride_request + head * out_stride_head + column;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const float4 sum = columns.sum[v];
    *reinterpret_cast<Four*>(target + 128 * v) =
        Four{portable::from_float<Element>(sum.x), portable::from_float<Element>(sum.y),
             portable::from_float<Element>(sum.z), portable::from_float<Element>(sum.w)};
  }
}

}  // namespace

// grid (ceil(num_heads / 4), split requests) for few splits, (num_heads, split requests) for many; 128
// threads
//
// partial_out   float [slots, num_heads, 512]; partial_lse float [slots, num_heads], base 2
// requests      [split requests]: which request each is
// slot_indptr   [split requests + 1]: entry i's 1 to 256 splits are slots slot_indptr[i] … slot_indptr[i+1]
// partial_count [batch]: how many of its slots a request has filled, 0: its result is in out. Null: all
// out           [batch, num_heads, 512], strides in elements, multiples of 4
// lse           float [batch, num_heads], in units of lse_unit · log2; may be null
#define SGLAB_COMBINE(NAME, ELEMENT, WARPS_PER_ROW)                                                         \
  extern "C" __global__ void __launch_bounds__(32 * kWarps)                                                 \
      NAME(const float* partial_out, const float* partial_lse, const int* requests, const int* slot_indptr, \
           const int* partial_count, ELEMENT* out, long long out_stride_request, long long out_stride_head, \
           float* lse, int num_heads, float lse_unit) {                                                     \
    combine<ELEMENT, WARPS_PER_ROW>(partial_out, partial_lse, requests, slot_indptr, partial_count, out,    \
                                    out_stride_request, out_stride_head, lse, num_heads, lse_unit);         \
  }
SGLAB_COMBINE(split_kv_combine_few_f16, __half, 1)
SGLAB_COMBINE(split_kv_combine_few_bf16, __nv_bfloat16, 1)
SGLAB_COMBINE(split_kv_combine_few_f32, float, 1)
SGLAB_COMBINE(split_kv_combine_many_f16, __half, 4)
SGLAB_COMBINE(split_kv_combine_many_bf16, __nv_bfloat16, 4)
SGLAB_COMBINE(split_kv_combine_many_f32, float, 4)
