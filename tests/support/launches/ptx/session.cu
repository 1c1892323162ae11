// What sessions are tested on. session.ptx was made by make.sh, with line information:
// tests name lines of this file.
extern "C" __global__ void reduce(const float* a, float* out, int n) {
  __shared__ float partial[128];
  float sum = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) sum += a[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 64; k > 0; k >>= 1) {
    if (threadIdx.x < k) partial[threadIdx.x] += partial[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, partial[0]);
}

__device__ __noinline__ int step_of_collatz(int x) {
  return x % 2 == 0 ? x / 2 : 3 * x + 1;
}

extern "C" __global__ void collatz(const int* start, int* steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int x = start[i], count = 0;
  while (x != 1) {
    x = step_of_collatz(x);
    ++count;
  }
  steps[i] = count;
}

extern "C" __global__ void spin_lock(int* lock, int* total) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int*)total = *(volatile int*)total + threadIdx.x;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

extern "C" __global__ void clock_and_out_of_bounds(long long* out, int n) {
  out[threadIdx.x] = clock64();
  if (n > 0) out[threadIdx.x + n] = 1;
}
