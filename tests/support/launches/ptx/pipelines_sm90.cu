// A warp-specialised matrix product with TMA, a ring of mbarriers and wgmma. pipelines_sm90.ptx was made by
// make.sh.
#include "pipelines.cuh"

struct Shared {
  alignas(1024) uint8_t a[kStages][8192], b[kStages][4096];
  alignas(8) uint64_t full[kStages], empty[kStages];
};

__device__ inline uint64_t descriptor(const void* p) {  // K-major, 128-byte swizzle
  return (ptx::smem_address(p) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ void load(Shared& s, const CUtensorMap* map_a, const CUtensorMap* map_b, int k) {
#pragma unroll 1
  for (int i = 0; i < k / 64; ++i) {
    const int stage = i % kStages, round = i / kStages & 1;
    ptx::mbarrier_wait(s.empty[stage], round ^ 1);
    ptx::mbarrier_arrive_expect_tx(s.full[stage], 12288);
    ptx::tma_load_2d(s.a[stage], map_a, i * 64, blockIdx.y * 64, s.full[stage]);
    ptx::tma_load_2d(s.b[stage], map_b, i * 64, blockIdx.x * 32, s.full[stage]);
  }
}

__device__ void multiply(Shared& s, float (&d)[16], int k) {
#pragma unroll 1
  for (int i = 0; i < k / 64; ++i) {
    const int stage = i % kStages, round = i / kStages & 1;
    ptx::mbarrier_wait(s.full[stage], round);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int j = 0; j < 4; ++j)
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
          "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, 0, 0;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
            "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
            "+f"(d[15])
          : "l"(descriptor(s.a[stage] + 32 * j)), "l"(descriptor(s.b[stage] + 32 * j)));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(s.empty[stage]);
  }
}

__device__ void epilogue(float* out, int n, const float (&d)[16]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 8; ++i) {
    const int row = blockIdx.y * 64 + warp * 16 + lane / 4 + 8 * (i % 2);
    const int column = blockIdx.x * 32 + 8 * (i / 2) + lane % 4 * 2;
    out[row * n + column] = d[2 * i];
    out[row * n + column + 1] = d[2 * i + 1];
  }
}

// out[m, n] = A[m, k] B[n, k]^T, half to float. Grid (n / 32, m / 64), 160 threads: warps 0-3 multiply, 4
// loads. Boxes: A 64 x 64, B 64 x 32.
extern "C" __global__ void __launch_bounds__(160)
    wgmma_pipeline(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                   float* out, int n, int k) {
  __shared__ Shared s;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) ptx::mbarrier_init(s.full[i], 1), ptx::mbarrier_init(s.empty[i], 4);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) load(s, &map_a, &map_b, k);
    return;
  }
  float d[16] = {};
  multiply(s, d, k);
  epilogue(out, n, d);
}
