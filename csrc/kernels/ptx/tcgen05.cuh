// tcgen05: tensor memory, and matrix products of a CTA pair that accumulate in it.
#pragma once

#include <cstdint>

#include "address.cuh"
#include "barrier.cuh"

namespace ptx {

// Tensorcore 5th Generation Instructions: tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit
// https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit
//
// A whole warp in each CTA of the pair. The address of the first column goes to shared memory.
__device__ inline void tcgen05_alloc(uint32_t& address, int columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(smem_address(&address)),
      "r"(columns)
      : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}
__device__ inline void tcgen05_dealloc(uint32_t address, int columns) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns)
               : "memory");
}

// Tensorcore 5th Generation Instructions: tcgen05.fence
// https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-special-sync-operations-fence
//
// What a thread did with tensor memory comes before what it signals with a barrier …
__device__ inline void tcgen05_fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
// … and what it does with tensor memory after what it learnt from a barrier.
__device__ inline void tcgen05_fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

#define SGLAB_TCGEN05_R4(op, d, i) op(d[i]), op(d[i + 1]), op(d[i + 2]), op(d[i + 3])
#define SGLAB_TCGEN05_R16(op, d, i)                                                           \
  SGLAB_TCGEN05_R4(op, d, i), SGLAB_TCGEN05_R4(op, d, i + 4), SGLAB_TCGEN05_R4(op, d, i + 8), \
      SGLAB_TCGEN05_R4(op, d, i + 12)
#define SGLAB_TCGEN05_R32(op, d) SGLAB_TCGEN05_R16(op, d, 0), SGLAB_TCGEN05_R16(op, d, 16)
#define SGLAB_TCGEN05_D32                                                                            \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

// Tensorcore 5th Generation Instructions: tcgen05.ld, tcgen05.st
// https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-instructions-tcgen05-ld
// https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-instructions-tcgen05-st
//
// A warp's 32 lanes of tensor memory, 32 columns from `address` on: thread i has lane i.
__device__ inline void tcgen05_ld_32(float* d, uint32_t address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 " SGLAB_TCGEN05_D32 ", [%32];"
               : SGLAB_TCGEN05_R32("=f", d)
               : "r"(address)
               : "memory");
}
__device__ inline void tcgen05_st_32(uint32_t address, const float* d) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], " SGLAB_TCGEN05_D32
               ";" ::SGLAB_TCGEN05_R32("f", d),
               "r"(address)
               : "memory");
}

#undef SGLAB_TCGEN05_R4
#undef SGLAB_TCGEN05_R16
#undef SGLAB_TCGEN05_R32
#undef SGLAB_TCGEN05_D32

// Tensorcore 5th Generation Instructions: tcgen05.wait
// https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-instructions-tcgen05-wait
//
// The registers that earlier loads named have their values after this.
template <int N>
__device__ inline void tcgen05_wait_ld(float (&registers)[N]) {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
__device__ inline void tcgen05_wait_st() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// Tensorcore 5th Generation Instructions: tcgen05.mma
// https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen05-mma-instructions-mma
//
// A matrix product of a CTA pair, started by one thread of its even CTA. D (tensor memory) = A · B, or +=
// where `accumulate`. A and B are shared memory descriptors and hold for both CTAs.
__device__ inline void tcgen05_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                   bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %4, 0;\n"
      "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, accumulate;\n"
      "}\n" ::"r"(d),
      "l"(a), "l"(b), "r"(instruction), "r"(static_cast<int>(accumulate))
      : "memory");
}

// Tensorcore 5th Generation Instructions: tcgen05.commit
// https://docs.nvidia.com/cuda/parallel-thread-execution/#tcgen-async-sync-operations-commit
//
// Once every product that this thread has started is complete, arrives at the barrier, in both CTAs.
__device__ inline void tcgen05_commit(Mbarrier barrier) {
  constexpr uint16_t kBothCtas = 0b11;
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::
          "r"(barrier.address),
      "h"(kBothCtas)
      : "memory");
}

}  // namespace ptx
