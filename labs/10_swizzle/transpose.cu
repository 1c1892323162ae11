// Lab 10a. The model solution.
extern "C" __global__ void transpose(const float* x, float* out) {
  __shared__ float tile[32][32];
  const int lane = threadIdx.x % 32;
  x += blockIdx.x * 1024, out += blockIdx.x * 1024;
  for (int row = threadIdx.x / 32; row < 32; row += 8) tile[row][lane ^ row] = x[row * 32 + lane];
  __syncthreads();
  for (int column = threadIdx.x / 32; column < 32; column += 8) out[column * 32 + lane] = tile[lane][column ^ lane];
}
