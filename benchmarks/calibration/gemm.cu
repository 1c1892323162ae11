// C (M, N) = A (M, K) · B (N, K)ᵀ in bfloat16, 128×128×64 tiles: a TMA warp feeds two warpgroups through a
// ring.
#include <cuda_bf16.h>

#include <cstdint>

#include "../../csrc/kernels/ptx/arithmetic.cuh"
#include "../../csrc/kernels/ptx/barrier.cuh"
#include "../../csrc/kernels/ptx/fence.cuh"
#include "../../csrc/kernels/ptx/wgmma.cuh"

namespace {

constexpr int kTile = 128, kDepth = 64, kStages = 4;
constexpr uint32_t kOperandBytes = kTile * kDepth * 2, kStageBytes = 2 * kOperandBytes;

struct alignas(128) Map {
  char bytes[128];
};

__device__ inline void load_tile(uint32_t smem, const Map* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(smem),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

#define D64                                                                                               \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, "                                                                                                 \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "  \
  "%43, "                                                                                                 \
  "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"

#define R8(d, i)                                                                              \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define R32(d, i) R8(d, i), R8(d, i + 8), R8(d, i + 16), R8(d, i + 24)

__device__ inline void wgmma_64x128(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " D64 ", %64, %65, p, 1, 1, 0, 0;\n}\n"
      : R32(d, 0), R32(d, 32)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

__device__ void produce(const Map* a, const Map* b, uint32_t ring, uint32_t full, uint32_t empty, int steps) {
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages, round = step / kStages;
    ptx::mbarrier_wait(empty + 8 * stage, (round & 1) ^ 1);
    ptx::mbarrier_arrive_expect_tx(full + 8 * stage, kStageBytes);
    const uint32_t smem = ring + stage * kStageBytes;
    load_tile(smem, a, full + 8 * stage, step * kDepth, blockIdx.y * kTile);
    load_tile(smem + kOperandBytes, b, full + 8 * stage, step * kDepth, blockIdx.x * kTile);
  }
}

// A warpgroup's 64 rows of the tile.
__device__ void consume(float (&d)[64], int group, uint32_t ring, uint32_t full, uint32_t empty, int steps) {
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages, round = step / kStages;
    ptx::mbarrier_wait(full + 8 * stage, round & 1);
    const uint32_t smem = ring + stage * kStageBytes;
    const uint64_t a = ptx::smem_descriptor(smem + group * kOperandBytes / 2, 16, 1024);
    const uint64_t b = ptx::smem_descriptor(smem + kOperandBytes, 16, 1024);
    ptx::registers_change(d);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) wgmma_64x128(d, a + 2 * k, b + 2 * k, step + k != 0);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();  // the products of the step before are done: their stage is free
    ptx::registers_change(d);
    if (step > 0 && threadIdx.x % 128 == 0) ptx::mbarrier_arrive(empty + 8 * ((step - 1) % kStages));
  }
  ptx::wgmma_wait<0>();
  ptx::registers_change(d);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(288)
    gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, __nv_bfloat16* c, int n, int k) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ uint64_t barriers[2 * kStages];
  const uint32_t ring = (ptx::smem_address(memory) + 1023) & ~1023u;
  const uint32_t full = ptx::smem_address(barriers), empty = full + 8 * kStages;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(full + 8 * stage, 1);
      ptx::mbarrier_init(empty + 8 * stage, 2);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const int warp = threadIdx.x / 32, group = warp / 4, steps = k / kDepth;
  if (warp == 8) {
    if (threadIdx.x % 32 == 0) produce(&a, &b, ring, full, empty, steps);
    return;
  }
  float d[64];
  consume(d, group, ring, full, empty, steps);
  const int row = blockIdx.y * kTile + group * 64 + warp % 4 * 16 + threadIdx.x % 32 / 4;
  const int column = blockIdx.x * kTile + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto* const target = reinterpret_cast<uint32_t*>(c + size_t(row + 8 * half) * n + column + 8 * i);
      *target = ptx::pack(ptx::Bf16{}, d[4 * i + 2 * half], d[4 * i + 2 * half + 1]);
    }
  }
}
