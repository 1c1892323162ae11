// Two kernels without tensor cores or asynchronous copies: what the warp engine itself costs. Compiled with
// nvcc -std=c++20 -O3 -arch=sm_80 -ptx scalar.cu

#include <cmath>
#include <cstdint>

// Integer, conversion and fma instructions on registers alone.
extern "C" __global__ void alu_loop(float* out, uint32_t seed, int iterations) {
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t state = seed ^ (thread * 2654435761u);
  float a = 0.5f, b = static_cast<float>(thread & 1023u) * 0x1p-10f;
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    state = state * 1664525u + 1013904223u;
    const float u = __uint_as_float((state >> 9) | 0x3f800000u) - 1.0f;
    a = fmaf(a, 0.75f, u);
    b = fmaf(b, u, a);
    if (b > 4.0f) b -= 4.0f;
    state ^= state >> 13;
  }
  out[thread] = a + b;
}

// Online softmax over S keys, a thread per query. q, k, v, o: [S, 64].
extern "C" __global__ void scalar_attention(const float* q, const float* k, const float* v, float* o, int S,
                                            float scale) {
  constexpr int D = 64;
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= S) return;
  float query[D], sum[D], m = -INFINITY, l = 0.0f;
  for (int d = 0; d < D; ++d) {
    query[d] = q[row * D + d] * scale;
    sum[d] = 0.0f;
  }
  for (int key = 0; key < S; ++key) {
    float score = 0.0f;
#pragma unroll
    for (int d = 0; d < D; ++d) score = fmaf(query[d], k[key * D + d], score);
    const float larger = fmaxf(m, score), rescale = expf(m - larger), p = expf(score - larger);
    l = fmaf(l, rescale, p);
#pragma unroll
    for (int d = 0; d < D; ++d) sum[d] = fmaf(sum[d], rescale, p * v[key * D + d]);
    m = larger;
  }
  for (int d = 0; d < D; ++d) o[row * D + d] = sum[d] / l;
}
