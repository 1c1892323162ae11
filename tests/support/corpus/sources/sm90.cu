// Kernels for sm_90a: TMA, clusters, distributed shared memory, wgmma, setmaxnreg, stmatrix.
#include <cuda_fp16.h>

#include "../../../../csrc/kernels/ptx/address.cuh"
#include "../../../../csrc/kernels/ptx/barrier.cuh"
#include "../../../../csrc/kernels/ptx/fence.cuh"
#include "../../../../csrc/kernels/ptx/tma.cuh"

// One tile per CTA: TMA load into smem (any swizzle the map says), the raw smem image written to `image`, TMA
// store to dst. Grid (tiles_x, tiles_y); the box is box_x * box_y elements; coordinates may run out of
// bounds.
extern "C" __global__ void tma_copy_2d(const __grid_constant__ CUtensorMap src,
                                       const __grid_constant__ CUtensorMap dst, uint32_t* image, int box_x,
                                       int box_y, int bytes, int x0, int y0) {
  extern __shared__ __align__(1024) uint8_t buffer[];
  __shared__ __align__(8) uint64_t full;
  int x = blockIdx.x * box_x + x0, y = blockIdx.y * box_y + y0;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
    ptx::mbarrier_arrive_expect_tx(full, bytes);
    ptx::tma_load_2d(buffer, &src, x, y, full);
  }
  __syncthreads();
  ptx::mbarrier_wait(full, 0);
  uint32_t* mine = image + (blockIdx.y * gridDim.x + blockIdx.x) * (bytes / 4);
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) mine[i] = reinterpret_cast<uint32_t*>(buffer)[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::tma_store_2d(&dst, buffer, x, y);
    ptx::bulk_commit_group();
    ptx::bulk_wait_group();
  }
}

// The same with a 3-D map, load only.
extern "C" __global__ void tma_load_3d_image(const __grid_constant__ CUtensorMap src, uint32_t* image,
                                             int bytes, int x, int y, int z) {
  extern __shared__ __align__(1024) uint8_t buffer[];
  __shared__ __align__(8) uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    asm volatile("prefetch.tensormap [%0];" ::"l"(&src));
    ptx::mbarrier_arrive_expect_tx(full, bytes);
    ptx::tma_load_3d(buffer, &src, x, y, z, full);
  }
  __syncthreads();
  ptx::mbarrier_wait(full, 0);
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) image[i] = reinterpret_cast<uint32_t*>(buffer)[i];
}

// Each CTA adds (blockIdx.x + 1) to the float tile at (0, 0) of dst through a TMA reduction. Box 32 x 8, no
// swizzle.
extern "C" __global__ void tma_reduce(const __grid_constant__ CUtensorMap dst) {
  __shared__ __align__(128) float tile[256];
  tile[threadIdx.x] = blockIdx.x + 1 + threadIdx.x * 0.25f;
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::tma_reduce_add_2d(&dst, tile, 0, 0);
    ptx::bulk_commit_group();
    ptx::bulk_wait_group_read();
    ptx::bulk_wait_group();
  }
}

// Plain bulk copies: global -> smem -> (doubled) -> global, and a bulk reduction into total. 1024 floats per
// CTA, 256 threads.
extern "C" __global__ void bulk_copy(const float* in, float* out, float* total) {
  __shared__ __align__(128) float tile[1024];
  __shared__ __align__(8) uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(full, 4096);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];" ::"r"(
            ptx::smem_address(tile)),
        "l"(in + blockIdx.x * 1024), "r"(ptx::smem_address(&full))
        : "memory");
  }
  __syncthreads();
  ptx::mbarrier_wait(full, 0);
  for (int i = threadIdx.x; i < 1024; i += 256) tile[i] *= 2.0f;
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 4096;" ::"l"(out + blockIdx.x * 1024),
        "r"(ptx::smem_address(tile))
        : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 4096;" ::"l"(total),
                 "r"(ptx::smem_address(tile))
                 : "memory");
    ptx::bulk_commit_group();
    ptx::bulk_wait_group();
  }
}

// Cluster of C CTAs: CTA r loads rows of the tile with TMA multicast to all; every CTA writes what it
// received. Box: 64 x (64 / C) halves, 128B swizzle; image: [gridDim.x, 2048] words.
extern "C" __global__ void multicast(const __grid_constant__ CUtensorMap src, uint32_t* image,
                                     int rows_per_cta) {
  __shared__ __align__(1024) uint8_t tile[8192];
  __shared__ __align__(8) uint64_t full;
  uint32_t rank = ptx::cluster_ctarank(), size = ptx::cluster_nctarank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(full, 8192);
  }
  __syncthreads();
  ptx::cluster_sync();
  if (threadIdx.x == 0)
    ptx::tma_load_2d_multicast(tile + rank * rows_per_cta * 128, &src, 0,
                               (blockIdx.x / size) * 64 + rank * rows_per_cta, full, (1u << size) - 1);
  ptx::mbarrier_wait(full, 0);
  for (int i = threadIdx.x; i < 2048; i += blockDim.x)
    image[blockIdx.x * 2048 + i] = reinterpret_cast<uint32_t*>(tile)[i];
  ptx::cluster_sync();
}

// Distributed shared memory: each CTA reads its neighbour's slot, adds remotely with atomics, stores with
// st.async, and arrives on the neighbour's mbarrier. Block 32 threads. out: [gridDim.x, 4, 32] ints.
extern "C" __global__ void cluster_exchange(const int* in, int* out) {
  __shared__ int slot[32], sum[32];
  __shared__ __align__(8) int mail[32];
  __shared__ __align__(8) uint64_t mail_full, hello;
  uint32_t rank = ptx::cluster_ctarank(), size = ptx::cluster_nctarank(), next = (rank + 1) % size;
  int lane = threadIdx.x;
  slot[lane] = in[blockIdx.x * 32 + lane];
  sum[lane] = 0;
  if (lane == 0) {
    ptx::mbarrier_init(mail_full, 1);
    ptx::mbarrier_init(hello, 32);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(mail_full, 128);
  }
  __syncthreads();
  ptx::cluster_sync();
  int neighbour;
  asm volatile("ld.shared::cluster.u32 %0, [%1];"
               : "=r"(neighbour)
               : "r"(ptx::mapa(&slot[lane], next))
               : "memory");
  asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(ptx::mapa(&sum[31 - lane], 0)),
               "r"(slot[lane])
               : "memory");
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                   ptx::mapa(&mail[lane], next)),
               "r"(slot[lane] * 3), "r"(ptx::mapa(&mail_full, next))
               : "memory");
  ptx::mbarrier_arrive_cluster(ptx::mapa(&hello, next));
  ptx::mbarrier_wait(mail_full, 0);
  ptx::mbarrier_wait(hello, 0);
  ptx::cluster_sync();
  int* mine = out + blockIdx.x * 128;
  mine[lane] = neighbour;
  mine[32 + lane] = sum[lane];
  mine[64 + lane] = mail[lane];
  mine[96 + lane] = rank * 100 + size;
}

// wgmma. Descriptors: K-major operands with 128-byte swizzle, one 64-wide K block (128 bytes) per tile.
__device__ __forceinline__ uint64_t wgmma_descriptor(const void* p, int lbo_bytes, int sbo_bytes,
                                                     uint64_t layout) {
  uint64_t d = (ptx::smem_address(p) & 0x3ffff) >> 4;
  d |= static_cast<uint64_t>(lbo_bytes >> 4) << 16;
  d |= static_cast<uint64_t>(sbo_bytes >> 4) << 32;
  return d | layout << 62;
}
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

template <int kTransposeB>
__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[32], uint64_t a, uint64_t b, int scale_d) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
      "27,%28,%29,%30,%31}, "
      "%32, %33, p, 1, 1, 0, %35; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(scale_d), "n"(kTransposeB));
}
__device__ __forceinline__ void store_accumulator(float* D, int ld, int row0, int col0,
                                                  const float (&d)[32]) {
  int warp = (threadIdx.x / 32) % 4, lane = threadIdx.x % 32;
  for (int j = 0; j < 8; ++j)
    for (int h = 0; h < 2; ++h) {
      int row = row0 + warp * 16 + lane / 4 + 8 * h, col = col0 + 8 * j + (lane % 4) * 2;
      D[row * ld + col] = d[4 * j + 2 * h];
      D[row * ld + col + 1] = d[4 * j + 2 * h + 1];
    }
}

// D[M,N] float = A[M,K] half * B[N,K]^T half. Tiles 64x64, K in steps of 64, one warpgroup, one stage.
// Maps: box 64 (K) x 64 (rows), 128B swizzle. Grid (N/64, M/64), block 128.
extern "C" __global__ void __launch_bounds__(128)
    wgmma_gemm(const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB, float* D,
               int N, int K) {
  __shared__ __align__(1024) uint8_t A[8192], B[8192];
  __shared__ __align__(8) uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  float d[32] = {};
  for (int k = 0, phase = 0; k < K; k += 64, phase ^= 1) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(full, 16384);
      ptx::tma_load_2d(A, &mapA, k, blockIdx.y * 64, full);
      ptx::tma_load_2d(B, &mapB, k, blockIdx.x * 64, full);
    }
    ptx::mbarrier_wait(full, phase);
    wgmma_fence();
    for (int i = 0; i < 4; ++i)
      wgmma_m64n64k16<0>(d, wgmma_descriptor(A + 32 * i, 16, 1024, 1),
                         wgmma_descriptor(B + 32 * i, 16, 1024, 1), 1);
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
  }
  store_accumulator(D, N, blockIdx.y * 64, blockIdx.x * 64, d);
}

// As wgmma_gemm with B given as [K,N] (N contiguous: MN-major). mapB: box 64 (N) x 64 (K), 128B swizzle.
extern "C" __global__ void __launch_bounds__(128)
    wgmma_gemm_bt(const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB,
                  float* D, int N, int K) {
  __shared__ __align__(1024) uint8_t A[8192], B[8192];
  __shared__ __align__(8) uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  float d[32] = {};
  for (int k = 0, phase = 0; k < K; k += 64, phase ^= 1) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(full, 16384);
      ptx::tma_load_2d(A, &mapA, k, blockIdx.y * 64, full);
      ptx::tma_load_2d(B, &mapB, blockIdx.x * 64, k, full);
    }
    ptx::mbarrier_wait(full, phase);
    wgmma_fence();
    for (int i = 0; i < 4; ++i)  // 16 K rows of B = 2048 bytes
      wgmma_m64n64k16<1>(d, wgmma_descriptor(A + 32 * i, 16, 1024, 1),
                         wgmma_descriptor(B + 2048 * i, 8192, 1024, 1), 1);
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
  }
  store_accumulator(D, N, blockIdx.y * 64, blockIdx.x * 64, d);
}

// Warp-specialised: warpgroup 0 loads (one thread, 4 stages, setmaxnreg), warpgroup 1 multiplies. Block 256.
extern "C" __global__ void __launch_bounds__(256)
    wgmma_gemm_pipelined(const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB,
                         float* D, int N, int K) {
  constexpr int kStages = 4;
  extern __shared__ __align__(1024) uint8_t tiles[];  // per stage: A 8192, B 8192 = 65,536 bytes
  __shared__ __align__(8) uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrier_init(full[s], 1);
      ptx::mbarrier_init(empty[s], 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  int steps = K / 64;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (int i = 0; i < steps; ++i) {
        int s = i % kStages, phase = (i / kStages) & 1;
        ptx::mbarrier_wait(empty[s], phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(full[s], 16384);
        ptx::tma_load_2d(tiles + s * 16384, &mapA, i * 64, blockIdx.y * 64, full[s]);
        ptx::tma_load_2d(tiles + s * 16384 + 8192, &mapB, i * 64, blockIdx.x * 64, full[s]);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[32] = {};
    for (int i = 0; i < steps; ++i) {
      int s = i % kStages, phase = (i / kStages) & 1;
      ptx::mbarrier_wait(full[s], phase);
      uint8_t *A = tiles + s * 16384, *B = A + 8192;
      wgmma_fence();
      for (int j = 0; j < 4; ++j)
        wgmma_m64n64k16<0>(d, wgmma_descriptor(A + 32 * j, 16, 1024, 1),
                           wgmma_descriptor(B + 32 * j, 16, 1024, 1), 1);
      wgmma_commit();
      wgmma_wait<0>();
      if (threadIdx.x == 128) ptx::mbarrier_arrive(empty[s]);
    }
    store_accumulator(D, N, blockIdx.y * 64, blockIdx.x * 64, d);
  }
}

// A from registers. A [64,16] half row-major, B [64,16] half (K-major, no swizzle layout built by hand), D
// [64,64] float. Block 128.
extern "C" __global__ void __launch_bounds__(128)
    wgmma_register_a(const uint16_t* A, const uint16_t* B, float* D) {
  __shared__ __align__(128) uint16_t b[64 * 16];
  for (int i = threadIdx.x; i < 1024; i += 128) {
    int n = i / 16, k = i % 16;  // core matrices 8 rows x 16 bytes: [n/8][k/8][n%8][k%8]
    b[((n / 8) * 2 + k / 8) * 64 + (n % 8) * 8 + k % 8] = B[i];
  }
  ptx::fence_proxy_async();
  __syncthreads();
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp * 16 + lane / 4, col = (lane % 4) * 2;
  auto pair = [&](int r, int c) {
    return static_cast<uint32_t>(A[r * 16 + c]) | static_cast<uint32_t>(A[r * 16 + c + 1]) << 16;
  };
  uint32_t a[4] = {pair(row, col), pair(row + 8, col), pair(row, col + 8), pair(row + 8, col + 8)};
  float d[32];
  for (int i = 0; i < 32; ++i) d[i] = 1.0f;
  wgmma_fence();
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
      "27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(wgmma_descriptor(b, 128, 256, 0)));
  wgmma_commit();
  wgmma_wait<0>();
  store_accumulator(D, 64, 0, 0, d);
}

// stmatrix (and its transpose) into smem, image out. One warp; in: [32, 4] words, image: [2, 128] words.
extern "C" __global__ void stmatrix_image(const uint32_t* in, uint32_t* image) {
  __shared__ __align__(16) uint32_t tile[2][128];
  int lane = threadIdx.x;
  uint32_t r[4] = {in[4 * lane], in[4 * lane + 1], in[4 * lane + 2], in[4 * lane + 3]};
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                   ptx::smem_address(&tile[0][lane * 4])),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                   ptx::smem_address(&tile[1][lane * 4])),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
  __syncwarp();
  for (int i = lane; i < 256; i += 32) image[i] = tile[i / 128][i % 128];
}

// Programmatic dependent launch instructions (no effect on a lone launch).
extern "C" __global__ void dependent_launch(int* out) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
  asm volatile("griddepcontrol.launch_dependents;");
}
