// Lab 12. The model solution: warp 0 computes the maximum and the sum of a tile's scores by shuffles; thread t keeps
// o[t] in a register.
extern "C" __global__ void decode(const float* q, const float* k, const float* v, float* out, float* lse, int keys,
                                  float scale) {
  __shared__ float p[32], shared_factor;
  const int t = threadIdx.x;
  float m = -INFINITY, d = 0, o = 0;
  __shared__ float shared_d;
  for (int start = 0; start < keys; start += 32) {
    if (t < 32) {
      float s = -INFINITY;
      if (start + t < keys) {
        s = 0;
#pragma unroll 16
        for (int i = 0; i < 64; ++i) s += q[i] * k[(start + t) * 64 + i];
        s *= scale;
      }
      float top = s;
      for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, lanes));
      top = fmaxf(top, m);
      const float factor = exp2f(m - top), weight = exp2f(s - top);
      float total = weight;
      for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(~0u, total, lanes);
      d = d * factor + total;
      m = top;
      p[t] = weight;
      if (t == 0) shared_factor = factor;
    }
    __syncthreads();  // the probabilities are there
    o *= shared_factor;
#pragma unroll 8
    for (int j = 0; j < min(32, keys - start); ++j) o += p[j] * v[(start + j) * 64 + t];
    __syncthreads();  // and may be overwritten
  }
  if (t == 0) {
    shared_d = d;
    *lse = m + log2f(d);
  }
  __syncthreads();
  out[t] = o / shared_d;
}
