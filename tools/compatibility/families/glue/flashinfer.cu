// FlashInfer's operators, for half and bfloat16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <flashinfer/activation.cuh>
#include <flashinfer/attention/cascade.cuh>
#include <flashinfer/math.cuh>
#include <flashinfer/pos_enc.cuh>
#include <flashinfer/quantization.cuh>

using namespace flashinfer;

__device__ __forceinline__ float silu(const float& x) { return x / (1.0f + __expf(-x)); }
__device__ __forceinline__ float gelu(const float& x) { return x * (0.5f + 0.5f * erff(x * 0.70710678f)); }

template <typename T, float (*kActivation)(const float&)>
long activated(void* in, void* out, long rows, long width) {
  activation::act_and_mul_kernel<T, kActivation, 16 / sizeof(T)>
      <<<rows, 256>>>(static_cast<T*>(out), static_cast<const T*>(in), int(width));
  return cudaGetLastError();
}

#define OF(T, name)                                                                                               \
  long silu_and_mul_##name(T* x, T* out, long n, long d) { return activated<T, silu>(x, out, n, d); }             \
  long gelu_and_mul_##name(T* x, T* out, long n, long d) { return activated<T, gelu>(x, out, n, d); }             \
  long merge_state_##name(T* va, float* sa, T* vb, float* sb, T* v, float* s, long n, long heads, long d) {       \
    return MergeState(va, sa, vb, sb, v, s, n, heads, d);                                                         \
  }                                                                                                               \
  long merge_states_##name(T* v, float* s, T* out, float* lse, long sets, long n, long heads, long d) {           \
    return MergeStates(v, s, out, lse, sets, n, heads, d);                                                        \
  }                                                                                                               \
  long rotary_##name(T* q, T* k, T* q_out, T* k_out, int* positions, long n, long hq, long hk, long d) {          \
    return BatchQKApplyRotaryPosIds(q, k, q_out, k_out, positions, n, hq, hk, d, d, hq* d, d, hk* d, d, hq* d, d, \
                                    hk* d, d, false, 1.0f, 1e4f);                                                 \
  }

extern "C" {
OF(half, half)
OF(nv_bfloat16, bfloat16)
long pack_bits(bool* in, unsigned char* out, long n) {
  return quantization::PackBits(in, out, n, quantization::BitOrder::kLittle, nullptr);
}
}
