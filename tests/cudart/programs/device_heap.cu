// malloc and new in kernels: blocks that outlive a launch, a heap of the size that was asked for, none where
// it is full.
#include <cuda_runtime.h>

#include <cstdio>

struct Pair {
  int first, second;
  __device__ Pair(int f, int s) : first(f), second(s) {}
  __device__ virtual int sum() const { return first + second; }
};

__global__ void build(Pair** pairs) {
  pairs[threadIdx.x] = new Pair(threadIdx.x, 100);
}
__global__ void read(Pair** pairs, int* sums) {
  sums[threadIdx.x] = pairs[threadIdx.x]->sum();
}
__global__ void drop(Pair** pairs, int count) {
  if (threadIdx.x < count) delete pairs[threadIdx.x];
}
__global__ void fill(int* got) {
  void* const block = malloc(200'000);
  if (block != nullptr) atomicAdd(got, 1);
  __syncthreads();
  free(block);
}

int main() {
  const cudaError_t early = cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 20);
  Pair** pairs;
  int *sums, *got, read_back[32], blocks = 0;
  cudaMalloc(&pairs, 32 * sizeof(Pair*));
  cudaMalloc(&sums, sizeof(read_back));
  cudaMalloc(&got, sizeof(int));
  cudaMemset(got, 0, sizeof(int));
  fill<<<1, 32>>>(got);
  build<<<1, 32>>>(pairs);
  read<<<1, 32>>>(pairs, sums);
  drop<<<1, 32>>>(pairs, 30);
  cudaMemcpy(read_back, sums, sizeof(read_back), cudaMemcpyDeviceToHost);
  cudaMemcpy(&blocks, got, sizeof(int), cudaMemcpyDeviceToHost);
  const cudaError_t late = cudaDeviceSetLimit(cudaLimitMallocHeapSize, 2 << 20);
  size_t limit = 0;
  cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
  std::printf("sums %d %d, blocks %d, limit %zu: %s, then %s\n", read_back[0], read_back[31], blocks, limit,
              cudaGetErrorName(early), cudaGetErrorName(late));
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
