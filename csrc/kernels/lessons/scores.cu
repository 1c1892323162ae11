// The first kernel of the course: the scores of one query against many keys, one warp for each key.
//
//   score[i] = Σ_d q[d] · keys[i][d]        q (128), keys (n, 128), score (n): float32
//
// A CTA has four warps. Together they bring q into shared memory; then each warp takes a key of its own. A
// lane multiplies four of the 128 dims, and five shuffles add up what the 32 lanes have.

constexpr int kDim = 128, kLanes = 32, kWarps = 4, kThreads = kLanes * kWarps;

extern "C" __global__ void __launch_bounds__(kThreads)
    scores(const float* __restrict__ q, const float* __restrict__ keys, float* __restrict__ score, int n) {
  __shared__ float shared_q[kDim];
  shared_q[threadIdx.x] = q[threadIdx.x];
  __syncthreads();

  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int key = blockIdx.x * kWarps + warp;
  if (key >= n) return;

  float sum = 0.0f;
  for (int d = lane; d < kDim; d += kLanes) sum += shared_q[d] * keys[key * kDim + d];
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0) score[key] = sum;
}
