// Kinds that overlap: cp.async, bulk copies, clusters, warps that feed warps, wgmma.
#include <cuda_bf16.h>

#include <cstdint>

#include "../../../csrc/kernels/ptx/address.cuh"
#include "../../../csrc/kernels/ptx/barrier.cuh"
#include "../../../csrc/kernels/ptx/cp_async.cuh"
#include "../../../csrc/kernels/ptx/fence.cuh"
#include "../../../csrc/kernels/ptx/tma.cuh"
#include "../../../csrc/kernels/ptx/wgmma.cuh"

#define KERNEL(threads) __global__ void __launch_bounds__(threads)

namespace {

__device__ void bulk_load(uint32_t smem, const void* global, uint32_t bytes, ptx::Mbarrier barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem),
      "l"(global), "r"(bytes), "r"(barrier.address)
      : "memory");
}

__device__ void initialise(uint64_t* barriers, int count, int arrivals) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) ptx::mbarrier_init(barriers[i], arrivals);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

// A warpgroup multiplies steps of 64 × 64 by 64 × kColumns, two stages of which one thread copies.
template <int kColumns, int kRegisters, class Multiply>
__device__ void multiply_steps(float (&d)[kRegisters], char* ring, const char* a, const char* b, int steps,
                               Multiply multiply) {
  constexpr uint32_t kLeft = 64 * 128, kRight = kColumns * 128, kStage = kLeft + kRight;
  __shared__ uint64_t full[2];
  initialise(full, 2, 1);
  const auto fetch = [&](int step) {
    if (threadIdx.x != 0 || step >= steps) return;
    const uint32_t smem = ptx::smem_address(ring) + step % 2 * kStage;
    ptx::mbarrier_arrive_expect_tx(full[step % 2], kStage);
    bulk_load(smem, a + (size_t(blockIdx.x) * steps + step) * kLeft, kLeft, full[step % 2]);
    bulk_load(smem + kLeft, b + size_t(step) * kRight, kRight, full[step % 2]);
  };
  fetch(0), fetch(1);
  for (int step = 0; step < steps; ++step) {
    ptx::mbarrier_wait(full[step % 2], step / 2 & 1);
    const uint32_t smem = ptx::smem_address(ring) + step % 2 * kStage;
    ptx::registers_change(d);
    ptx::wgmma_fence();
    multiply(smem, smem + kLeft, step != 0);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::registers_change(d);
    __syncthreads();
    fetch(step + 2);
  }
}

}  // namespace

extern "C" {

// 24 KiB per CTA through four stages of shared memory, 16 bytes per thread and copy.
KERNEL(256) cp_async_vectors(uint4* out, const uint4* in, const float*, int) {
  __shared__ uint4 ring[4][256];
  const uint4* const from = in + blockIdx.x * 1536 + threadIdx.x;
  for (int k = 0; k < 3; ++k) {
    ptx::cp_async_16(ptx::smem_address(&ring[k][threadIdx.x]), from + k * 256, 16);
    ptx::cp_async_commit_group();
  }
  for (int k = 0; k < 6; ++k) {
    ptx::cp_async_wait_group<2>();
    out[blockIdx.x * 1536 + k * 256 + threadIdx.x] = ring[k % 4][threadIdx.x];
    if (k + 3 < 6)
      ptx::cp_async_16(ptx::smem_address(&ring[(k + 3) % 4][threadIdx.x]), from + (k + 3) * 256, 16);
    ptx::cp_async_commit_group();
  }
}

// 8 KiB per CTA by copies of four bytes, read back by other threads.
KERNEL(256) cp_async_words(float* out, const float* in, const float*, int) {
  __shared__ float tile[2048];
#pragma unroll
  for (int k = 0; k < 8; ++k)
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(ptx::smem_address(tile + k * 256 + threadIdx.x)),
        "l"(in + blockIdx.x * 2048 + k * 256 + threadIdx.x));
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 8; ++k)
    out[blockIdx.x * 2048 + k * 256 + threadIdx.x] = tile[k * 256 + 255 - threadIdx.x];
}

// 32 KiB per CTA by bulk copies of 4 KiB into four stages, added up.
KERNEL(128) bulk_sum(float* out, const float4* in, const float*, int) {
  __shared__ __align__(128) float4 ring[4][256];
  __shared__ uint64_t full[4];
  initialise(full, 4, 1);
  const auto fetch = [&](int k) {
    if (threadIdx.x != 0 || k >= 8) return;
    ptx::mbarrier_arrive_expect_tx(full[k % 4], 4096);
    bulk_load(ptx::smem_address(ring[k % 4]), in + (blockIdx.x * 8 + k) * 256, 4096, full[k % 4]);
  };
  for (int k = 0; k < 4; ++k) fetch(k);
  float sum = 0;
  for (int k = 0; k < 8; ++k) {
    ptx::mbarrier_wait(full[k % 4], k / 4 & 1);
    for (int i = threadIdx.x; i < 256; i += 128) {
      const float4 v = ring[k % 4][i];
      sum += v.x + v.y + v.z + v.w;
    }
    __syncthreads();
    fetch(k + 4);
  }
  out[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Three tiles of 64 × 32 floats per CTA, copied in and out by tensor maps.
KERNEL(128) tensor_tiles(const __grid_constant__ CUtensorMap to, const __grid_constant__ CUtensorMap from) {
  __shared__ __align__(128) float tiles[2][2048];
  __shared__ uint64_t full[2];
  initialise(full, 2, 1);
  if (threadIdx.x == 0) {
    for (int k = 0; k < 3; ++k) {
      const int row = (blockIdx.x * 3 + k) * 64;
      if (k >= 2) ptx::bulk_wait_group_read();
      ptx::mbarrier_arrive_expect_tx(full[k % 2], 8192);
      ptx::tma_load_2d(tiles[k % 2], &from, 0, row, full[k % 2]);
      ptx::mbarrier_wait(full[k % 2], k / 2);
      ptx::tma_store_2d(&to, tiles[k % 2], 0, row);
      ptx::bulk_commit_group();
    }
    ptx::bulk_wait_group();
  }
}

// Clusters of four: each CTA reads what its neighbour computed, n times.
__global__ void __cluster_dims__(4) __launch_bounds__(256)
    cluster_ring(float* out, const float* in, const float*, int n) {
  __shared__ float room[2][256];
  const uint32_t next = (ptx::cluster_ctarank() + 1) % 4;
  float own = in[blockIdx.x * 256 + threadIdx.x];
  for (int k = 0; k < n; ++k) {
    room[k % 2][threadIdx.x] = own;
    ptx::cluster_sync();
    float other;
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(other)
                 : "r"(ptx::mapa(&room[k % 2][threadIdx.x], next)));
    own = fmaf(other, 0.5f, own);
  }
  ptx::cluster_sync();
  out[blockIdx.x * 256 + threadIdx.x] = own;
}

// Clusters of four: all add into the first one's shared memory.
__global__ void __cluster_dims__(4) __launch_bounds__(256)
    cluster_sum(int* out, const int* in, const int*, int) {
  __shared__ int bins[256];
  bins[threadIdx.x] = 0;
  ptx::cluster_sync();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int value = in[(blockIdx.x * 4 + k) * 256 + threadIdx.x];
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(
                     ptx::mapa(bins + (threadIdx.x + k) % 256, 0)),
                 "r"(value)
                 : "memory");
  }
  ptx::cluster_sync();
  if (ptx::cluster_ctarank() == 0) out[blockIdx.x / 4 * 256 + threadIdx.x] = bins[threadIdx.x];
}

// A warp loads for three warps that compute; named barriers between them; n rounds.
KERNEL(128) feed_by_barriers(float* out, const float* in, const float*, int n) {
  __shared__ float room[2][96];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 3) {
    for (int k = 0; k < n; ++k) {
      if (k >= 2) ptx::bar_sync(3 + k % 2, 128);
#pragma unroll
      for (int i = 0; i < 3; ++i) room[k % 2][i * 32 + lane] = in[(blockIdx.x * n + k) * 96 + i * 32 + lane];
      asm volatile("bar.arrive %0, 128;" ::"r"(1 + k % 2) : "memory");
    }
    return;
  }
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    ptx::bar_sync(1 + k % 2, 128);
    float x = room[k % 2][threadIdx.x];
    if (k + 2 < n) asm volatile("bar.arrive %0, 128;" ::"r"(3 + k % 2) : "memory");
#pragma unroll
    for (int i = 0; i < 16; ++i) x = fmaf(x, 0.75f, 0.5f);
    sum += x;
  }
  out[blockIdx.x * 96 + threadIdx.x] = sum;
}

// The same by mbarriers, with four stages.
KERNEL(128) feed_by_mbarriers(float* out, const float* in, const float*, int n) {
  __shared__ float room[4][96];
  __shared__ uint64_t full[4], empty[4];
  initialise(full, 4, 32);
  initialise(empty, 4, 96);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 3) {
    for (int k = 0; k < n; ++k) {
      ptx::mbarrier_wait(empty[k % 4], (k / 4 & 1) ^ 1);
#pragma unroll
      for (int i = 0; i < 3; ++i) room[k % 4][i * 32 + lane] = in[(blockIdx.x * n + k) * 96 + i * 32 + lane];
      ptx::mbarrier_arrive(full[k % 4]);
    }
    return;
  }
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    ptx::mbarrier_wait(full[k % 4], k / 4 & 1);
    float x = room[k % 4][threadIdx.x];
    ptx::mbarrier_arrive(empty[k % 4]);
#pragma unroll
    for (int i = 0; i < 16; ++i) x = fmaf(x, 0.75f, 0.5f);
    sum += x;
  }
  out[blockIdx.x * 96 + threadIdx.x] = sum;
}

// 64 × 64 per CTA by wgmma. Tiles are copied as they lie: what the swizzle makes of them matters to nobody.
KERNEL(128) wgmma_64(float* out, const char* a, const char* b, int steps) {
  __shared__ __align__(1024) char ring[2 * 128 * 128];
  float d[32];
  multiply_steps<64>(d, ring, a, b, steps, [&](uint32_t left, uint32_t right, bool accumulate) {
    const uint64_t p = ptx::smem_descriptor(left, 16, 1024), q = ptx::smem_descriptor(right, 16, 1024);
#pragma unroll
    for (int k = 0; k < 4; ++k) ptx::wgmma_64x64(ptx::Bf16{}, d, p + 2 * k, q + 2 * k, accumulate || k != 0);
  });
#pragma unroll
  for (int i = 0; i < 32; ++i) out[(blockIdx.x * 32 + i) * 128 + threadIdx.x] = d[i];
}

// 64 × 256 per CTA, B by rows of k; 80 KiB of shared memory. A quarter of the sums is stored, each of four.
KERNEL(128) wgmma_256(float* out, const char* a, const char* b, int steps) {
  extern __shared__ __align__(1024) char ring[];
  float d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = 0.0f;
  multiply_steps<256>(d, ring, a, b, steps, [&](uint32_t left, uint32_t right, bool) {
    const uint64_t p = ptx::smem_descriptor(left, 16, 1024), q = ptx::smem_descriptor(right, 8192, 1024);
#pragma unroll
    for (int k = 0; k < 4; ++k) ptx::wgmma_64x256(ptx::Bf16{}, d, p + 2 * k, q + 128 * k);
  });
#pragma unroll
  for (int i = 0; i < 32; ++i)
    out[(blockIdx.x * 32 + i) * 128 + threadIdx.x] = d[i] + d[i + 32] + d[i + 64] + d[i + 96];
}

}  // extern "C"
