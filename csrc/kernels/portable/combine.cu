// Split-KV combine: the partial results of one request's splits become its result.
//
//   lse = log2 Σ 2^lse_i        out = Σ 2^(lse_i − lse) · out_i
//
// One CTA per request and head: each thread owns 4 of the 512 columns and walks the splits. A split whose lse
// is −inf has seen no token; its row is not read, so it may hold anything. If all are, out = 0 and lse =
// −inf.
#include "element.cuh"

namespace {

constexpr int kColumns = 512;
constexpr int kThreads = kColumns / 4;
constexpr int kMaxSplits = 256;
constexpr int kInFlight = 8;  // rows a thread asks for before it uses the first

__device__ float warp_max(float x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, lanes));
  return x;
}
__device__ float warp_sum(float x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffff, x, lanes);
  return x;
}

// Fills weights[0 … splits) with 2^(lse_i − lse) and returns lse. Run by one warp.
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
  return lse;
}

template <class Element>
__device__ void combine(const float* partial_out, const float* partial_lse, const int* requests,
                        const int* slot_indptr, Element* out, long long out_stride_request,
                        long long out_stride_head, float* lse, int num_heads, float lse_unit) {
  __shared__ float weights[kMaxSplits];
  const int head = blockIdx.x, column = threadIdx.x * 4;
  const int request = requests[blockIdx.y];
  const int first = slot_indptr[blockIdx.y], splits = slot_indptr[blockIdx.y + 1] - first;
  // The plan, read above, is older than the attention kernel; the partials, read below, are its work.
  asm volatile("griddepcontrol.wait;" ::: "memory");

  const long long first_row = static_cast<long long>(first) * num_heads + head;
  if (threadIdx.x < 32) {
    const float total = weigh(partial_lse + first_row, num_heads, splits, weights);
    if (threadIdx.x == 0) lse[static_cast<long long>(request) * num_heads + head] = total * lse_unit;
  }
  __syncthreads();  // the weights are there

  const float* rows = partial_out + first_row * kColumns + column;
  const long long row_stride = static_cast<long long>(num_heads) * kColumns;
  float4 sum{};
  for (int i = 0; i < splits; i += kInFlight) {
    float4 row[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      row[j] = float4{};
      if (i + j < splits && weights[i + j] > 0.0f) {
        row[j] = __ldcs(reinterpret_cast<const float4*>(rows + (i + j) * row_stride));
      }
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const float weight = i + j < splits ? weights[i + j] : 0.0f;
      sum.x += weight * row[j].x;
      sum.y += weight * row[j].y;
      sum.z += weight * row[j].z;
      sum.w += weight * row[j].w;
    }
  }
  using Four = portable::Pack<Element, 4>;
  *reinterpret_cast<Four*>(out + request * out_stride_request + head * out_stride_head + column) =
      Four{portable::from_float<Element>(sum.x), portable::from_float<Element>(sum.y),
           portable::from_float<Element>(sum.z), portable::from_float<Element>(sum.w)};
}

}  // namespace

// grid (num_heads, split requests), 128 threads
//
// partial_out   float [slots, num_heads, 512]; partial_lse float [slots, num_heads], base 2
// requests      [split requests]: which request each is
// slot_indptr   [split requests + 1]: entry i's splits are slots slot_indptr[i] … slot_indptr[i + 1], at most
// 256 out           [batch, num_heads, 512], strides in elements, multiples of 4 lse           float [batch,
// num_heads], in units of lse_unit · log2
#define SGLAB_COMBINE(NAME, ELEMENT)                                                                         \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                     \
      NAME(const float* partial_out, const float* partial_lse, const int* requests, const int* slot_indptr,  \
           ELEMENT* out, long long out_stride_request, long long out_stride_head, float* lse, int num_heads, \
           float lse_unit) {                                                                                 \
    combine(partial_out, partial_lse, requests, slot_indptr, out, out_stride_request, out_stride_head, lse,  \
            num_heads, lse_unit);                                                                            \
  }
SGLAB_COMBINE(split_kv_combine_f16, __half)
SGLAB_COMBINE(split_kv_combine_bf16, __nv_bfloat16)
SGLAB_COMBINE(split_kv_combine_f32, float)
