// One product on Blackwell's tensor cores, with nothing around it: d = a bᵀ, one CTA of 128 threads.
//
//   a (128, 64), b (64, 64) float16      d (128, 64) float32
//
// The operands come in the two ways there are: a by TMA, b by the threads' own stores. The product reads both
// from shared memory through descriptors, writes tensor memory, and says at an mbarrier that it is done.
//
// The bits of the descriptors are arguments: notebook 23 makes them, right ones and wrong ones.
#include <cuda.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "../ptx/barrier.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/tcgen05.cuh"
#include "../ptx/tma.cuh"

namespace {

constexpr int kM = 128, kN = 64, kK = 64, kThreads = 128;
constexpr int kInstructionK = 16;  // columns that one tcgen05.mma sums over: 32 bytes of a row

// ptx/tcgen05.cuh has these for CTA pairs; here a CTA is on its own.
__device__ void alloc(uint32_t& address, int columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(ptx::smem_address(&address)),
      "r"(columns)
      : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
__device__ void dealloc(uint32_t address, int columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns)
               : "memory");
}
__device__ void mma(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, accumulate;\n"
      "}\n" ::"r"(d),
      "l"(a), "l"(b), "r"(instruction), "r"(static_cast<int>(accumulate))
      : "memory");
}
__device__ void commit(ptx::Mbarrier barrier) {
  asm volatile(
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier.address)
      : "memory");
}

struct Shared {
  __align__(1024) uint4 a[kM][8], b[kN][8];  // a row is 128 bytes, eight chunks of 16
  uint64_t loaded, done;
  uint32_t tmem;
};

}  // namespace

// layout: a shared memory descriptor but for its address; instruction: tcgen05.mma's instruction descriptor.
extern "C" __global__ void __launch_bounds__(kThreads)
    blackwell_tile(const __grid_constant__ CUtensorMap a, const __half* b, float* d, uint64_t layout,
                   uint32_t instruction) {
  __shared__ Shared shared;
  const int thread = threadIdx.x, warp = thread / 32;

  if (thread == 0) {
    ptx::mbarrier_init(shared.loaded, 1);
    ptx::mbarrier_init(shared.done, 1);
    ptx::fence_mbarrier_init();  // TMA and tensor cores see them
  }
  if (warp == 0) alloc(shared.tmem, kN);
  __syncthreads();  // all threads see them

  if (thread == 0) {  // a: one instruction, the copy engine does the rest
    ptx::mbarrier_arrive_expect_tx(shared.loaded, sizeof(shared.a));
    ptx::tma_load_2d(shared.a, &a, 0, 0, shared.loaded);
  }
  for (int i = thread; i < kN * 8; i += kThreads) {  // b: chunk c of row r goes to place c ^ (r mod 8)
    const int row = i / 8, chunk = i % 8;
    shared.b[row][chunk ^ (row % 8)] = reinterpret_cast<const uint4*>(b)[i];
  }
  ptx::fence_proxy_async();  // these stores come before what the tensor core reads
  __syncthreads();

  const uint32_t tmem = shared.tmem;
  if (thread == 0) {
    ptx::mbarrier_wait(shared.loaded, 0);
#pragma unroll 1
    for (int k = 0; k < kK / kInstructionK; ++k) {
      const uint64_t left = (ptx::smem_address(shared.a) + 32 * k) >> 4;
      const uint64_t right = (ptx::smem_address(shared.b) + 32 * k) >> 4;
      mma(tmem, layout | left, layout | right, instruction, k > 0);
    }
    commit(shared.done);  // arrives when all four are complete
  }
  ptx::mbarrier_wait(shared.done, 0);
  ptx::tcgen05_fence_after_thread_sync();

  float row[kN];
  const uint32_t lane = static_cast<uint32_t>(warp * 32) << 16;  // a warp reaches its quarter of the lanes
  ptx::tcgen05_ld_32(row, tmem + lane);
  ptx::tcgen05_ld_32(row + 32, tmem + lane + 32);
  ptx::tcgen05_wait_ld(row);
  for (int column = 0; column < kN; ++column) d[thread * kN + column] = row[column];

  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();  // all have read
  if (warp == 0) dealloc(tmem, kN);
}
