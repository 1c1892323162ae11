// Approximations of transcendental functions, and conversions to 16-bit floats.
#pragma once

#include <cstdint>

namespace ptx {

// Floating Point Instructions: ex2
// https://docs.nvidia.com/cuda/parallel-thread-execution/#floating-point-instructions-ex2
__device__ inline float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Floating Point Instructions: lg2
// https://docs.nvidia.com/cuda/parallel-thread-execution/#floating-point-instructions-lg2
__device__ inline float lg2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The element types of our kernels; functions take them as tags.
struct F16 {};
struct Bf16 {};

// Data Movement and Conversion Instructions: cvt
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
//
// Two floats rounded to 16 bits each; `low` goes to the lower half.
__device__ inline uint32_t pack(F16, float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ inline uint32_t pack(Bf16, float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace ptx
