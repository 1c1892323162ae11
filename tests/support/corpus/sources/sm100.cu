// Kernels for sm_100a: tcgen05 with one CTA and with a CTA pair, TMEM loads and stores in several shapes.
#include "../../../../csrc/kernels/ptx/address.cuh"
#include "../../../../csrc/kernels/ptx/barrier.cuh"
#include "../../../../csrc/kernels/ptx/elect.cuh"
#include "../../../../csrc/kernels/ptx/fence.cuh"
#include "../../../../csrc/kernels/ptx/tma.cuh"

__device__ __forceinline__ void tmem_alloc(uint32_t* slot, uint32_t columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(ptx::smem_address(slot)),
      "r"(columns)
      : "memory");
}
__device__ __forceinline__ void tmem_dealloc(uint32_t base, uint32_t columns) {
  asm volatile(
      "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, "
      "%1;\ntcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(base),
      "r"(columns));
}
__device__ __forceinline__ void tmem_alloc2(uint32_t* slot, uint32_t columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(ptx::smem_address(slot)),
      "r"(columns)
      : "memory");
}
__device__ __forceinline__ void tmem_dealloc2(uint32_t base, uint32_t columns) {
  asm volatile(
      "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, "
      "%1;\ntcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::"r"(base),
      "r"(columns));
}
__device__ __forceinline__ void tcgen05_before() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void tcgen05_after() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void wait_ld() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_st() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// Shared-memory descriptor, K-major, 128-byte swizzle: LBO unused (1), SBO 1024 bytes, version 1, layout 2.
__device__ __forceinline__ uint64_t umma_descriptor(const void* p) {
  return ((ptx::smem_address(p) & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 46) | (2ull << 61);
}
__device__ __forceinline__ uint32_t instruction_descriptor(int M, int N, int ab_format) {
  return (1u << 4) | (ab_format << 7) | (ab_format << 10) | ((N >> 3) << 17) | ((M >> 4) << 24);
}
template <int kGroup>
__device__ __forceinline__ void mma_f16(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc,
                                        uint32_t accumulate) {
  if constexpr (kGroup == 1)
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::
            "r"(d),
        "l"(a), "l"(b), "r"(idesc), "r"(accumulate)
        : "memory");
  else
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %4, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }" ::
            "r"(d),
        "l"(a), "l"(b), "r"(idesc), "r"(accumulate)
        : "memory");
}
__device__ __forceinline__ void commit(uint64_t* bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   ptx::smem_address(bar))
               : "memory");
}
__device__ __forceinline__ void commit2(uint64_t* bar, uint16_t mask) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::
          "r"(ptx::smem_address(bar)),
      "h"(mask)
      : "memory");
}
__device__ __forceinline__ void ld_32x32b_x32(uint32_t address, uint32_t (&r)[32]) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
      "27,%28,%29,%30,%31}, [%32];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]),
        "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]),
        "=r"(r[16]), "=r"(r[17]), "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]),
        "=r"(r[23]), "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]),
        "=r"(r[30]), "=r"(r[31])
      : "r"(address));
}

// D[M,N] float = A[M,K] half * B[N,K]^T half. One CTA per 128x128 tile, K in steps of 64, one stage.
// Maps: box 64 (K) x 128 rows, 128B swizzle. Grid (N/128, M/128), block 128. kBf16: ab format 1.
template <int kFormat>
__device__ __forceinline__ void gemm_1cta(const CUtensorMap& mapA, const CUtensorMap& mapB, float* D, int N,
                                          int K) {
  __shared__ __align__(1024) uint8_t A[16384], B[16384];
  __shared__ __align__(8) uint64_t full, done;
  __shared__ uint32_t tmem_slot;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) tmem_alloc(&tmem_slot, 128);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::mbarrier_init(done, 1);
    ptx::fence_mbarrier_init();
  }
  tcgen05_before();
  __syncthreads();
  tcgen05_after();
  uint32_t tmem = tmem_slot;
  if (warp == 0) {
    for (int k = 0, phase = 0; k < K; k += 64, phase ^= 1) {
      if (ptx::elect_sync()) {
        ptx::mbarrier_arrive_expect_tx(full, 32768);
        ptx::tma_load_2d(A, &mapA, k, blockIdx.y * 128, full);
        ptx::tma_load_2d(B, &mapB, k, blockIdx.x * 128, full);
      }
      ptx::mbarrier_wait(full, phase);
      if (ptx::elect_sync()) {
        for (int i = 0; i < 4; ++i)
          mma_f16<1>(tmem, umma_descriptor(A + 32 * i), umma_descriptor(B + 32 * i),
                     instruction_descriptor(128, 128, kFormat), k + i > 0);
        commit(&done);
      }
      ptx::mbarrier_wait(done, phase);
    }
  }
  tcgen05_before();
  __syncthreads();
  tcgen05_after();
  for (int c = 0; c < 128; c += 32) {
    uint32_t r[32];
    ld_32x32b_x32(tmem + (static_cast<uint32_t>(warp * 32) << 16) + c, r);
    wait_ld();
    float* row = D + (blockIdx.y * 128 + warp * 32 + lane) * N + blockIdx.x * 128 + c;
    for (int j = 0; j < 32; ++j) row[j] = __uint_as_float(r[j]);
  }
  tcgen05_before();
  __syncthreads();
  tcgen05_after();
  if (warp == 0) tmem_dealloc(tmem, 128);
}
extern "C" __global__ void __launch_bounds__(128)
    tcgen05_gemm_f16(const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB,
                     float* D, int N, int K) {
  gemm_1cta<0>(mapA, mapB, D, N, K);
}
extern "C" __global__ void __launch_bounds__(128)
    tcgen05_gemm_bf16(const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB,
                      float* D, int N, int K) {
  gemm_1cta<1>(mapA, mapB, D, N, K);
}

// CTA pair (cluster 2,1,1): D tile 256 x 128. CTA r loads A rows 128r.. and B rows 64r.. (both of the pair's
// tile). mapA: box 64 x 128; mapB: box 64 x 64; 128B swizzle. Grid (2 * M/256, N/128), block 128.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
    tcgen05_gemm_pair(const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB,
                      float* D, int N, int K) {
  __shared__ __align__(1024) uint8_t A[16384], B[8192];
  __shared__ __align__(8) uint64_t full, done;
  __shared__ uint32_t tmem_slot;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t rank = ptx::cluster_ctarank();
  int row0 = (blockIdx.x / 2) * 256 + rank * 128, col0 = blockIdx.y * 128;
  if (warp == 0) tmem_alloc2(&tmem_slot, 128);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::mbarrier_init(done, 1);
    ptx::fence_mbarrier_init();
  }
  tcgen05_before();
  __syncthreads();
  ptx::cluster_sync();
  tcgen05_after();
  uint32_t tmem = tmem_slot;
  uint32_t leader_full = ptx::smem_address(&full) & 0xFEFFFFFFu;  // the even CTA's barrier
  for (int k = 0, phase = 0; k < K; k += 64, phase ^= 1) {
    if (warp == 0) {
      if (ptx::elect_sync()) {
        if (rank == 0) ptx::mbarrier_arrive_expect_tx(full, 2 * (16384 + 8192));
        asm volatile(
            "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
            "[%1, {%3, %4}], [%2];" ::"r"(ptx::smem_address(A)),
            "l"(&mapA), "r"(leader_full), "r"(k), "r"(row0)
            : "memory");
        asm volatile(
            "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
            "[%1, {%3, %4}], [%2];" ::"r"(ptx::smem_address(B)),
            "l"(&mapB), "r"(leader_full), "r"(k), "r"(col0 + static_cast<int>(rank) * 64)
            : "memory");
      }
      if (rank == 0) {
        ptx::mbarrier_wait(full, phase);
        if (ptx::elect_sync()) {
          for (int i = 0; i < 4; ++i)
            mma_f16<2>(tmem, umma_descriptor(A + 32 * i), umma_descriptor(B + 32 * i),
                       instruction_descriptor(256, 128, 0), k + i > 0);
          commit2(&done, 3);
        }
      }
      ptx::mbarrier_wait(done, phase);
    }
  }
  tcgen05_before();
  __syncthreads();
  tcgen05_after();
  for (int c = 0; c < 128; c += 32) {
    uint32_t r[32];
    ld_32x32b_x32(tmem + (static_cast<uint32_t>(warp * 32) << 16) + c, r);
    wait_ld();
    float* row = D + (row0 + warp * 32 + lane) * N + col0 + c;
    for (int j = 0; j < 32; ++j) row[j] = __uint_as_float(r[j]);
  }
  tcgen05_before();
  __syncthreads();
  ptx::cluster_sync();
  tcgen05_after();
  if (warp == 0) tmem_dealloc2(tmem, 128);
}

// A from TMEM: A[128,16] half is stored by the threads (two halves per column), B[64,16] half K-major without
// swizzle. D [128,64] float. Block 128.
extern "C" __global__ void __launch_bounds__(128)
    tcgen05_a_in_tmem(const uint16_t* A, const uint16_t* B, float* D) {
  __shared__ __align__(128) uint16_t b[64 * 16];
  __shared__ __align__(8) uint64_t done;
  __shared__ uint32_t tmem_slot;
  int warp = threadIdx.x / 32, t = threadIdx.x;
  if (warp == 0) tmem_alloc(&tmem_slot, 128);
  if (t == 0) {
    ptx::mbarrier_init(done, 1);
    ptx::fence_mbarrier_init();
  }
  for (int i = t; i < 1024; i += 128) {  // core matrices [n/8][k/8][n%8][k%8]
    int n = i / 16, k = i % 16;
    b[((n / 8) * 2 + k / 8) * 64 + (n % 8) * 8 + k % 8] = B[i];
  }
  ptx::fence_proxy_async();
  tcgen05_before();
  __syncthreads();
  tcgen05_after();
  uint32_t tmem = tmem_slot, mine = tmem + (static_cast<uint32_t>(warp * 32) << 16);
  uint32_t r[8];
  for (int j = 0; j < 8; ++j)
    r[j] = static_cast<uint32_t>(A[t * 16 + 2 * j]) | static_cast<uint32_t>(A[t * 16 + 2 * j + 1]) << 16;
  asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8};" ::"r"(mine + 64),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7])
               : "memory");
  wait_st();
  tcgen05_before();
  __syncthreads();
  tcgen05_after();
  if (warp == 0 && ptx::elect_sync()) {
    uint64_t descriptor =
        ((ptx::smem_address(b) & 0x3ffff) >> 4) | (8ull << 16) | (16ull << 32) | (1ull << 46);
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, 0, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }" ::
            "r"(tmem),
        "r"(tmem + 64), "l"(descriptor), "r"(instruction_descriptor(128, 64, 0))
        : "memory");
    commit(&done);
  }
  __syncwarp();
  ptx::mbarrier_wait(done, 0);
  tcgen05_after();
  for (int c = 0; c < 64; c += 32) {
    uint32_t v[32];
    ld_32x32b_x32(mine + c, v);
    wait_ld();
    for (int j = 0; j < 32; ++j) D[t * 64 + c + j] = __uint_as_float(v[j]);
  }
  tcgen05_before();
  __syncthreads();
  if (warp == 0) tmem_dealloc(tmem, 128);
}

// Writes TMEM with one shape and reads it with others. Warp w stores lane * 1000 + column through 32x32b.x16;
// out: [128 threads, 48] words: 16x64b.x8 (8), 16x128b.x4 (8), 16x256b.x2 (8), the last two 32x32b.pack::16b
// x8 and 16x32bx2.
extern "C" __global__ void __launch_bounds__(128) tmem_shapes(uint32_t* out) {
  __shared__ uint32_t tmem_slot;
  int warp = threadIdx.x / 32;
  if (warp == 0) tmem_alloc(&tmem_slot, 32);
  tcgen05_before();
  __syncthreads();
  tcgen05_after();
  uint32_t base = tmem_slot + (static_cast<uint32_t>(warp * 32) << 16);
  uint32_t v[16];
  for (int j = 0; j < 16; ++j) v[j] = threadIdx.x * 1000 + j;
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], "
      "{%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16};" ::"r"(base),
      "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]), "r"(v[7]), "r"(v[8]),
      "r"(v[9]), "r"(v[10]), "r"(v[11]), "r"(v[12]), "r"(v[13]), "r"(v[14]), "r"(v[15])
      : "memory");
  wait_st();
  uint32_t r[8], *row = out + threadIdx.x * 48;
#define LOAD(SHAPE, OFFSET)                                                                          \
  asm volatile("tcgen05.ld.sync.aligned." SHAPE ".b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"              \
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), \
                 "=r"(r[7])                                                                          \
               : "r"(base));                                                                         \
  wait_ld();                                                                                         \
  for (int j = 0; j < 8; ++j) row[OFFSET + j] = r[j];
  LOAD("16x64b.x8", 0)
  LOAD("16x128b.x4", 8)
  LOAD("16x256b.x2", 16)
  LOAD("32x32b.x8", 24)
  asm volatile("tcgen05.ld.sync.aligned.16x32bx2.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], 8;"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                 "=r"(r[7])
               : "r"(base));
  wait_ld();
  for (int j = 0; j < 8; ++j) row[32 + j] = r[j];
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.pack::16b.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                 "=r"(r[7])
               : "r"(base));
  wait_ld();
  for (int j = 0; j < 8; ++j) row[40 + j] = r[j];
  tcgen05_before();
  __syncthreads();
  if (warp == 0) tmem_dealloc(tmem_slot, 32);
}
