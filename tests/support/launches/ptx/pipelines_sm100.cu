// The same product with tcgen05, by one CTA or by a pair. pipelines_sm100.ptx was made by make.sh.
#include "pipelines.cuh"

constexpr int kRows = 128;  // of A and D per CTA
constexpr int kColumns = 64;

template <int kCtas>
struct Shared {
  alignas(1024) uint8_t a[kStages][16384], b[kStages][8192 / kCtas];
  alignas(8) uint64_t full[kStages], empty[kStages], done;
  uint32_t tmem;
};

__device__ inline uint64_t descriptor(const void* p) {  // K-major, 128-byte swizzle
  return (ptx::smem_address(p) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}
template <int kCtas>
__device__ inline void commit(uint64_t* bar) {
  if constexpr (kCtas == 1)
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                     ptx::smem_address(bar))
                 : "memory");
  else
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], "
        "%1;" ::"r"(ptx::smem_address(bar)),
        "h"(uint16_t{3})
        : "memory");
}
template <int kCtas>
__device__ inline void mma_f16(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, int accumulate) {
  if constexpr (kCtas == 1)
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::
            "r"(d),
        "l"(a), "l"(b), "r"(idesc), "r"(accumulate)
        : "memory");
  else
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }" ::
            "r"(d),
        "l"(a), "l"(b), "r"(idesc), "r"(accumulate)
        : "memory");
}

// Both CTAs of a pair load their halves; all bytes are counted by the leader's barrier.
template <int kCtas>
__device__ void load(Shared<kCtas>& s, const CUtensorMap* map_a, const CUtensorMap* map_b, int k) {
#pragma unroll 1
  for (int i = 0; i < k / 64; ++i) {
    const int stage = i % kStages, round = i / kStages & 1;
    ptx::mbarrier_wait(s.empty[stage], round ^ 1);
    if (ptx::cluster_ctarank() % kCtas == 0)
      ptx::mbarrier_arrive_expect_tx(s.full[stage], kCtas * sizeof s.a[0] + 8192);
    const uint32_t full = ptx::smem_address(&s.full[stage]) & (kCtas == 2 ? 0xfeffffffu : ~0u);
    const int row = blockIdx.x * kRows,
              column = blockIdx.y * kColumns + ptx::cluster_ctarank() % kCtas * (kColumns / kCtas);
    const uint32_t targets[2] = {ptx::smem_address(s.a[stage]), ptx::smem_address(s.b[stage])};
    const CUtensorMap* maps[2] = {map_a, map_b};
    const int rows[2] = {row, column};
    for (int j = 0; j < 2; ++j) {
      if constexpr (kCtas == 1)
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
            "%4}], "
            "[%2];" ::"r"(targets[j]),
            "l"(maps[j]), "r"(full), "r"(i * 64), "r"(rows[j])
            : "memory");
      else
        asm volatile(
            "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
            "[%1, {%3, %4}], [%2];" ::"r"(targets[j]),
            "l"(maps[j]), "r"(full), "r"(i * 64), "r"(rows[j])
            : "memory");
    }
  }
}

template <int kCtas>
__device__ void mma(Shared<kCtas>& s, uint32_t tmem, int k) {
  const uint32_t idesc = 1u << 4 | kColumns / 8 << 17 | kCtas * kRows / 16 << 24;  // f16 to f32
#pragma unroll 1
  for (int i = 0; i < k / 64; ++i) {
    const int stage = i % kStages, round = i / kStages & 1;
    ptx::mbarrier_wait(s.full[stage], round);
    for (int j = 0; j < 4; ++j)
      mma_f16<kCtas>(tmem, descriptor(s.a[stage] + 32 * j), descriptor(s.b[stage] + 32 * j), idesc,
                     i + j > 0);
    commit<kCtas>(&s.empty[stage]);
  }
  commit<kCtas>(&s.done);
}

template <int kCtas>
__device__ void epilogue(Shared<kCtas>& s, uint32_t tmem, float* out, int n) {
  const int warp = threadIdx.x / 32, row = blockIdx.x * kRows + threadIdx.x;
  ptx::mbarrier_wait(s.done, 0);
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
#pragma unroll 1
  for (int c = 0; c < kColumns; c += 8) {
    uint32_t r[8];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                   "=r"(r[7])
                 : "r"(tmem + (warp * 32 << 16) + c));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    for (int j = 0; j < 8; ++j) out[row * n + blockIdx.y * kColumns + c + j] = __uint_as_float(r[j]);
  }
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

template <int kCtas>
__device__ inline void sync() {
  if constexpr (kCtas == 1)
    __syncthreads();
  else
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

template <int kCtas>
__device__ void product(Shared<kCtas>& s, const CUtensorMap* map_a, const CUtensorMap* map_b, float* out,
                        int n, int k) {
  const int warp = threadIdx.x / 32;
  if (warp == 5) {
    if constexpr (kCtas == 1)
      asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(
                       ptx::smem_address(&s.tmem))
                   : "memory");
    else
      asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(
                       ptx::smem_address(&s.tmem))
                   : "memory");
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) ptx::mbarrier_init(s.full[i], 1), ptx::mbarrier_init(s.empty[i], 1);
    ptx::mbarrier_init(s.done, 1);
    ptx::fence_mbarrier_init();
  }
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  sync<kCtas>();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  const uint32_t tmem = s.tmem;
  if (warp == 4) {
    if (ptx::elect_sync()) load<kCtas>(s, map_a, map_b, k);
  } else if (warp == 5) {
    if (ptx::cluster_ctarank() % kCtas == 0 && ptx::elect_sync()) mma<kCtas>(s, tmem, k);
  } else {
    epilogue<kCtas>(s, tmem, out, n);
  }
  __syncthreads();
  sync<kCtas>();
  if (warp == 5) {
    if constexpr (kCtas == 1)
      asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(tmem));
    else
      asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" ::"r"(tmem));
  }
}

// out[m, n] = A[m, k] B[n, k]^T, half to float. Grid (m / 128, n / 64), 192 threads: warps 0-3 store, 4
// loads, 5 issues the multiplications. Boxes: A 64 x 128, B 64 x 64.
extern "C" __global__ void __launch_bounds__(192)
    tcgen05_pipeline(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     float* out, int n, int k) {
  __shared__ Shared<1> s;
  product<1>(s, &map_a, &map_b, out, n, k);
}
// The same by pairs of CTAs: m a multiple of 256. Box of B: 64 x 32.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192)
    tcgen05_pair_pipeline(const __grid_constant__ CUtensorMap map_a,
                          const __grid_constant__ CUtensorMap map_b, float* out, int n, int k) {
  __shared__ Shared<2> s;
  product<2>(s, &map_a, &map_b, out, n, k);
}
