// The kernel to improve: right, but the accumulator lies in shared memory and is rescaled in a pass of its own.
// out[d] = softmax(k q * scale, base 2) v; *lse = log2 of the sum of 2^score. One CTA of 64 threads; 64 dims.
extern "C" __global__ void decode(const float* q, const float* k, const float* v, float* out, float* lse, int keys,
                                  float scale) {
  __shared__ float s[32], o[64], top, sum, factor;
  const int t = threadIdx.x;
  o[t] = 0;
  if (t == 0) top = -INFINITY, sum = 0;
  __syncthreads();
  for (int start = 0; start < keys; start += 32) {
    if (t < 32) {
      float score = -INFINITY;
      if (start + t < keys) {
        score = 0;
        for (int d = 0; d < 64; ++d) score += q[d] * k[(start + t) * 64 + d];
        score *= scale;
      }
      s[t] = score;
    }
    __syncthreads();
    if (t == 0) {
      float now = top;
      for (int j = 0; j < 32; ++j) now = fmaxf(now, s[j]);
      factor = exp2f(top - now);
      sum *= factor;
      for (int j = 0; j < 32; ++j) s[j] = exp2f(s[j] - now), sum += s[j];
      top = now;
    }
    __syncthreads();
    o[t] *= factor;
    __syncthreads();
    for (int j = 0; j < 32 && start + j < keys; ++j) o[t] += s[j] * v[(start + j) * 64 + t];
    __syncthreads();
  }
  out[t] = o[t] / sum;
  if (t == 0) *lse = top + log2f(sum);
}
