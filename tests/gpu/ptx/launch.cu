// Kernels for the launch tests. launch.ptx was made from this file:
//   nvcc -std=c++20 -O3 -lineinfo -arch=sm_90a -ptx launch.cu
//   sed -i 's,"/.*/launch.cu","launch.cu",' launch.ptx
#include <cuda.h>

#include <cstdint>

struct Terms {
  float bias;
  short scale;
  double fine;
};

extern "C" __global__ void every_kind(const float* x, float* out, int n, float factor, char tiny, Terms terms,
                                      double wide, const int* nothing) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && nothing == nullptr) {
    out[i] = x[i] * factor + terms.bias * terms.scale + static_cast<float>(terms.fine) + tiny +
             static_cast<float>(wide);
  }
}

extern "C" __global__ void __launch_bounds__(128) reverse_in_smem(const float* x, float* out, int n) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tile[n - 1 - i];
}

static __device__ uint32_t smem(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Every CTA writes what its successor in the cluster holds.
extern "C" __global__ void pass_round(const int* in, int* out) {
  __shared__ int slot[32];
  uint32_t rank, size, remote;
  int value;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  slot[threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(remote)
               : "r"(smem(&slot[threadIdx.x])), "r"((rank + 1) % size));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
  out[blockIdx.x * 32 + threadIdx.x] = value;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Copies one tile per CTA from one tensor map to another, and shows the tile as stored in shared memory.
extern "C" __global__ void copy_tile(const __grid_constant__ CUtensorMap source,
                                     const __grid_constant__ CUtensorMap target, uint32_t* image, int rows,
                                     int columns, int bytes) {
  extern __shared__ __align__(1024) uint8_t tile_bytes[];
  __shared__ __align__(8) uint64_t full;
  const int x = blockIdx.x * columns, y = blockIdx.y * rows;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&full)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&full)), "r"(bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(smem(tile_bytes)),
        "l"(&source), "r"(smem(&full)), "r"(x), "r"(y)
        : "memory");
  }
  __syncthreads();
  asm volatile(
      "{ .reg .pred done;\nwait: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra wait; "
      "}" ::"r"(smem(&full))
      : "memory");
  uint32_t* const mine = image + (blockIdx.y * gridDim.x + blockIdx.x) * (bytes / 4);
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x)
    mine[i] = reinterpret_cast<uint32_t*>(tile_bytes)[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&target),
                 "r"(smem(tile_bytes)), "r"(x), "r"(y)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

extern "C" __global__ void store_behind(float* x, int n) {
  x[n + threadIdx.x] = 1.0f;
}

extern "C" __global__ void trap_in(int thread) {
  if (threadIdx.x == thread) __trap();
}
