// wgmma: matrix products by a warpgroup, B from shared memory, the accumulator in registers.
#pragma once

#include <cstdint>

#include "arithmetic.cuh"

namespace ptx {

// Asynchronous Warpgroup Level Matrix Instructions: matrix descriptor
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor
//
// A shared memory matrix with the 128-byte swizzle, as a wgmma operand: rows of 128 bytes, 8 rows per swizzle
// atom. Strides in bytes. K-major: `stride` from one 8-row group to the next, `leading` unused. MN-major:
// `leading` from one 64-element column group to the next, `stride` from 8 rows of K to the next 8.
__device__ inline uint64_t smem_descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62;
  return kSwizzle128 | uint64_t(stride >> 4) << 32 | uint64_t(leading >> 4) << 16 |
         ((address & 0x3FFFF) >> 4);
}

// Asynchronous Warpgroup Level Matrix Instructions: wgmma.fence
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-fence
//
// Orders this warpgroup's register and shared memory accesses before the wgmmas that follow.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Asynchronous Warpgroup Level Matrix Instructions: wgmma.commit_group, wgmma.wait_group
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-commit-group
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `Pending` of the committed groups are still running.
template <int Pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Says to the compiler that these registers change here: accumulators of wgmmas that have been waited for.
template <int N>
__device__ inline void registers_change(float (&registers)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

#define SGLAB_WGMMA_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SGLAB_WGMMA_R16(d, i) \
  SGLAB_WGMMA_R4(d, i), SGLAB_WGMMA_R4(d, i + 4), SGLAB_WGMMA_R4(d, i + 8), SGLAB_WGMMA_R4(d, i + 12)
#define SGLAB_WGMMA_R32(d, i) SGLAB_WGMMA_R16(d, i), SGLAB_WGMMA_R16(d, i + 16)
#define SGLAB_WGMMA_R128(d) \
  SGLAB_WGMMA_R32(d, 0), SGLAB_WGMMA_R32(d, 32), SGLAB_WGMMA_R32(d, 64), SGLAB_WGMMA_R32(d, 96)

#define SGLAB_WGMMA_D32                                                                              \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define SGLAB_WGMMA_D128                                                                                   \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "       \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, "   \
  "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "   \
  "%61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, "   \
  "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, "  \
  "%101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, " \
  "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127}"

// Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma
//
// The three products of attention, for one element type each:
//   s  (64×64)  = or += A (64×16, smem, K-major) · Bᵀ (64×16, smem, K-major)
//   o (64×256) += A (64×16, registers or smem)   · B  (16×256, smem, MN-major)
#define SGLAB_WGMMA(TAG, TYPE)                                                                       \
  __device__ inline void wgmma_64x64(TAG, float (&d)[32], uint64_t a, uint64_t b, bool accumulate) { \
    asm volatile(                                                                                    \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " SGLAB_WGMMA_D32              \
        ", %32, %33, p, 1, 1, 0, 0;\n}\n"                                                            \
        : SGLAB_WGMMA_R32(d, 0)                                                                      \
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                                        \
  }                                                                                                  \
  __device__ inline void wgmma_64x256(TAG, float (&d)[128], const uint32_t* a, uint64_t b) {         \
    asm volatile(                                                                                    \
        "{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"                                                   \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " " SGLAB_WGMMA_D128            \
        ", {%128, %129, %130, %131}, %132, p, 1, 1, 1;\n}\n"                                         \
        : SGLAB_WGMMA_R128(d)                                                                        \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                       \
  }                                                                                                  \
  __device__ inline void wgmma_64x256(TAG, float (&d)[128], uint64_t a, uint64_t b) {                \
    asm volatile(                                                                                    \
        "{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"                                                   \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " " SGLAB_WGMMA_D128            \
        ", %128, %129, p, 1, 1, 0, 1;\n}\n"                                                          \
        : SGLAB_WGMMA_R128(d)                                                                        \
        : "l"(a), "l"(b));                                                                           \
  }
SGLAB_WGMMA(F16, "f16")
SGLAB_WGMMA(Bf16, "bf16")
#undef SGLAB_WGMMA
#undef SGLAB_WGMMA_R4
#undef SGLAB_WGMMA_R16
#undef SGLAB_WGMMA_R32
#undef SGLAB_WGMMA_R128
#undef SGLAB_WGMMA_D32
#undef SGLAB_WGMMA_D128

}  // namespace ptx
