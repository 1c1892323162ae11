// The kernel to beat: every tile is loaded, waited for and summed before the next is asked for.
// out[column] += sum over rows of x[row][column]; x (tiles * 16, 64); one CTA of 128 threads.
extern "C" __global__ void sum_columns(const float* x, float* out, int tiles) {
  __shared__ float tile[16][64];
  const int column = threadIdx.x % 64, half = threadIdx.x / 64;
  float sum = 0;
  for (int i = 0; i < tiles; ++i) {
    for (int row = half; row < 16; row += 2) tile[row][column] = x[(i * 16 + row) * 64 + column];
    __syncthreads();
    for (int row = half; row < 16; row += 2) sum += tile[row][column];
    __syncthreads();
  }
  atomicAdd(&out[column], sum);
}
