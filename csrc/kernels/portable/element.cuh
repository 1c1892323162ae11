// 16-byte vectors of float, half and bfloat16, read as floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace portable {

template <class T>
__device__ inline float to_float(T x) {
  return static_cast<float>(x);
}

template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// N elements that are loaded and stored together.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T element[N];
};

// The most elements that 16 bytes hold.
template <class T>
constexpr int kPerVector = 16 / sizeof(T);

}  // namespace portable
