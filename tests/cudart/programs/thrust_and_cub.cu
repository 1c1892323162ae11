// Device algorithms of Thrust and CUB, and variables that the host writes and reads.
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <cstdio>
#include <cub/cub.cuh>
#include <vector>
__constant__ float factors[4];
__device__ int counter;
__global__ void use(float* x) {
  x[threadIdx.x] *= factors[threadIdx.x % 4];
  if (threadIdx.x < 10) atomicAdd(&counter, 1);
}
#define CHECK(x)                                     \
  do {                                               \
    cudaError_t e = (x);                             \
    if (e) {                                         \
      printf("%s: %s\n", #x, cudaGetErrorString(e)); \
      return 1;                                      \
    }                                                \
  } while (0)
int main() {
  const int n = 5000;
  thrust::device_vector<int> d(n);
  thrust::sequence(d.begin(), d.end());
  printf("reduce %d\n", thrust::reduce(d.begin(), d.end()));
  thrust::transform(d.begin(), d.end(), d.begin(), thrust::negate<int>());
  thrust::sort(d.begin(), d.end());
  thrust::host_vector<int> h = d;
  printf("sorted %d %d %d\n", (int)std::is_sorted(h.begin(), h.end()), h[0], h[n - 1]);
  thrust::inclusive_scan(d.begin(), d.end(), d.begin());
  printf("scan %d\n", (int)d[n - 1]);
  int* out;
  CHECK(cudaMalloc(&out, 4));
  void* temp = nullptr;
  size_t bytes = 0;
  CHECK(cub::DeviceReduce::Max(temp, bytes, thrust::raw_pointer_cast(d.data()), out, n));
  CHECK(cudaMalloc(&temp, bytes));
  CHECK(cub::DeviceReduce::Max(temp, bytes, thrust::raw_pointer_cast(d.data()), out, n));
  int most;
  CHECK(cudaMemcpy(&most, out, 4, cudaMemcpyDeviceToHost));
  printf("cub max %d\n", most);
  float f[4] = {1, 2, 3, 4};
  CHECK(cudaMemcpyToSymbol(factors, f, sizeof f));
  thrust::device_vector<float> x(32, 1.0f);
  use<<<1, 32>>>(thrust::raw_pointer_cast(x.data()));
  CHECK(cudaGetLastError());
  int c;
  CHECK(cudaMemcpyFromSymbol(&c, counter, 4));
  printf("symbols %g %d\n", (float)x[7], c);
  int clock;
  CHECK(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0));
  cudaFuncAttributes a;
  CHECK(cudaFuncGetAttributes(&a, use));
  printf("ptx %d binary %d clock %d\n", a.ptxVersion, a.binaryVersion, clock > 0);
}
