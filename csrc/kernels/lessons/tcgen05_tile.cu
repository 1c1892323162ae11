// Products of Blackwell's tensor cores: A and B in shared memory, where descriptors say, D in tensor memory.
//
//   D = A · Bᵀ, with float32 sums; A and B of float16, or of narrower elements with a scale per block
//
// What a caller may get wrong are arguments: both descriptors, the instruction descriptor, and the order of
// issue, commit and wait. Tensor memory holds −1 beforehand, so that it shows what no product has written.
#include <cstdint>

#include "../ptx/address.cuh"
#include "../ptx/barrier.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/tcgen05.cuh"

namespace {

constexpr int kThreads = 128, kImage = 32768, kColumns = 128;
constexpr int kScalesOfA = 24576, kScalesOfB = 25600;  // in the image, 512 bytes per 64 of K
constexpr int kScaleColumnsOfA = kColumns, kScaleColumnsOfB = kColumns + 8;  // in tensor memory

enum class Order { kRight, kNoWait, kCommitFirst };

enum class Scales { kNone, kMxf8, kMxf4, kNvf4 };

struct Shared {
  uint4 image[kImage / 16];
  uint64_t full;
  uint32_t columns;
};

template <int kCtas>
__device__ void alloc(uint32_t& address) {
  if constexpr (kCtas == 1) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"(
                     ptx::smem_address(&address))
                 : "memory");
  } else {
    ptx::tcgen05_alloc(address, 256);
  }
}

template <int kCtas>
__device__ void dealloc(uint32_t address) {
  if constexpr (kCtas == 1) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 256;" ::"r"(address) : "memory");
  } else {
    ptx::tcgen05_dealloc(address, 256);
  }
}

template <int kCtas>
__device__ void commit(uint64_t& full) {
  if constexpr (kCtas == 1) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                     ptx::smem_address(&full))
                 : "memory");
  } else {
    ptx::tcgen05_commit(full);  // at the barrier of both CTAs
  }
}

#define TCGEN05_MMA(KIND, OPERANDS, ...)                                                  \
  asm volatile(                                                                           \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                         \
      "tcgen05.mma.cta_group::1." KIND " [%0], %1, %2, %3, " OPERANDS "p;\n}\n" ::"r"(d), \
      "l"(a), "l"(b), "r"(instruction), "r"(int(accumulate))__VA_ARGS__                   \
      : "memory")
#define TCGEN05_SCALES , "r"(scales_a), "r"(scales_b)

template <int kCtas, Scales kScales>
__device__ void multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool accumulate,
                         uint32_t scales_a, uint32_t scales_b) {
  if constexpr (kCtas == 2) {
    ptx::tcgen05_mma(d, a, b, instruction, accumulate);
  } else if constexpr (kScales == Scales::kNone) {
    TCGEN05_MMA("kind::f16", "");
  } else if constexpr (kScales == Scales::kMxf8) {
    TCGEN05_MMA("kind::mxf8f6f4.block_scale.scale_vec::1X", "[%5], [%6], ", TCGEN05_SCALES);
  } else if constexpr (kScales == Scales::kMxf4) {
    TCGEN05_MMA("kind::mxf4.block_scale.scale_vec::2X", "[%5], [%6], ", TCGEN05_SCALES);
  } else {
    TCGEN05_MMA("kind::mxf4nvf4.block_scale.scale_vec::4X", "[%5], [%6], ", TCGEN05_SCALES);
  }
}

// Scales from shared to tensor memory: 32 rows of 16 bytes go to four columns, the same in all four quarters
// of the lanes. It is ordered before products that the same thread starts later.
__device__ void copy_scales(uint32_t to, uint32_t from) {
  const uint64_t descriptor =
      uint64_t(1) << 46 | uint64_t(128 >> 4) << 32 | uint64_t(128 >> 4) << 16 | from >> 4;
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(descriptor) : "memory");
}

template <Scales kScales>
__device__ void start_products(uint32_t columns, uint32_t image, uint64_t a, uint64_t b, uint32_t instruction,
                               int steps) {
  constexpr uint64_t kStep = 32 >> 4;  // an instruction takes 32 bytes of each row of A and B
  if constexpr (kScales != Scales::kNone) {
    const int copies = kScales == Scales::kNvf4 ? steps : 1;
    for (int i = 0; i < copies; ++i) {
      copy_scales(columns + kScaleColumnsOfA + 4 * i, image + kScalesOfA + 512 * i);
      copy_scales(columns + kScaleColumnsOfB + 4 * i, image + kScalesOfB + 512 * i);
    }
  }
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    uint32_t scales_a = columns + kScaleColumnsOfA, scales_b = columns + kScaleColumnsOfB,
             selected = instruction;
    if constexpr (kScales == Scales::kMxf8)
      selected |= step << 29 | step << 4;  // which byte of a word of scales
    if constexpr (kScales == Scales::kMxf4) selected |= 2 * step << 29 | 2 * step << 4;
    if constexpr (kScales == Scales::kNvf4) scales_a += 4 * step, scales_b += 4 * step;
    multiply<1, kScales>(columns, a + step * kStep, b + step * kStep, selected, step > 0, scales_a, scales_b);
  }
}

__device__ void start_pair_products(uint32_t columns, uint64_t a, uint64_t b, uint32_t instruction,
                                    int steps) {
#pragma unroll 1
  for (int step = 0; step < steps; ++step)
    multiply<2, Scales::kNone>(columns, a + 2 * step, b + 2 * step, instruction, step > 0, 0, 0);
}

template <int kCtas, Scales kScales>
__device__ void tile(const uint4* image, float* d, uint64_t a, uint64_t b, uint32_t instruction, int steps,
                     Order order) {
  __shared__ __align__(1024) Shared shared;
  const int warp = threadIdx.x / 32, rank = kCtas == 2 ? ptx::cluster_ctarank() : 0;
  for (int i = threadIdx.x; i < kImage / 16; i += kThreads) shared.image[i] = image[rank * (kImage / 16) + i];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(shared.full, 1);
    ptx::fence_mbarrier_init();
  }
  if (warp == 0) alloc<kCtas>(shared.columns);
  ptx::fence_proxy_async();  // the tensor core reads what threads wrote
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();

  // A warp reaches a quarter of the 128 lanes.
  const uint32_t columns = shared.columns, mine = columns + (warp << 21);
  float row[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) row[i] = -1.0f;
  for (int column = 0; column < kColumns; column += 32) ptx::tcgen05_st_32(mine + column, row);
  ptx::tcgen05_wait_st();
  ptx::tcgen05_fence_before_thread_sync();
  if constexpr (kCtas == 2) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }

  if (threadIdx.x == 0 && rank == 0) {  // one thread starts everything, of a pair's tensor cores, too
    ptx::tcgen05_fence_after_thread_sync();
    const uint32_t start = ptx::smem_address(shared.image);
    const uint64_t base = start >> 4;
    if (order == Order::kCommitFirst) commit<kCtas>(shared.full);
    if constexpr (kCtas == 2) {
      start_pair_products(columns, base + a, base + b, instruction, steps);
    } else {
      start_products<kScales>(columns, start, base + a, base + b, instruction, steps);
    }
    if (order != Order::kCommitFirst) commit<kCtas>(shared.full);
  }
  if (order != Order::kNoWait) ptx::mbarrier_wait(shared.full, 0);
  ptx::tcgen05_fence_after_thread_sync();
  for (int column = 0; column < kColumns; column += 32) {
    ptx::tcgen05_ld_32(row, mine + column);
    ptx::tcgen05_wait_ld(row);
    for (int i = 0; i < 32; ++i) d[(rank * kThreads + threadIdx.x) * kColumns + column + i] = row[i];
  }
  ptx::tcgen05_fence_before_thread_sync();
  if constexpr (kCtas == 2) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  if (warp == 0) dealloc<kCtas>(columns);
}

}  // namespace

// image: of each CTA 32 KB that go to shared memory as they are; d (CTAs, 128 lanes, 128 columns); a, b:
// shared memory descriptors whose addresses count from the image's start; steps: instructions along K.
#define TCGEN05_TILE(NAME, CTAS, SCALES)                                                                  \
  extern "C" __global__ void __cluster_dims__(CTAS, 1, 1) __launch_bounds__(kThreads) tcgen05_##NAME(     \
      const uint4* image, float* d, uint64_t a, uint64_t b, uint32_t instruction, int steps, int order) { \
    tile<CTAS, Scales::SCALES>(image, d, a, b, instruction, steps, static_cast<Order>(order));            \
  }
TCGEN05_TILE(f16, 1, kNone)
TCGEN05_TILE(f16_pair, 2, kNone)
TCGEN05_TILE(mxf8, 1, kMxf8)
TCGEN05_TILE(mxf4, 1, kMxf4)
TCGEN05_TILE(nvf4, 1, kNvf4)
