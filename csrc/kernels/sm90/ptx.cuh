// The Hopper instructions that the SM90 kernels use, one thin wrapper each, named as in the PTX ISA.
#pragma once

#include <cstdint>

namespace ptx {

// ---- shared memory addresses and ordering ----

__device__ inline uint32_t smem_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Ordinary stores to shared memory, made visible to the async proxy: wgmma and TMA.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- barriers ----

__device__ inline void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ inline void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ inline void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and adds `bytes` to what TMA must still deliver before the phase can complete.
__device__ inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Waits until the phase with this parity has completed.
__device__ inline void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "retry:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra retry;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// ---- TMA ----

constexpr uint64_t kEvictNormal = 0x1000000000000000;  // L2 policies, as createpolicy.fractional encodes them
constexpr uint64_t kEvictFirst = 0x12F0000000000000;

__device__ inline void tma_load_3d(uint32_t smem, const void* tensor_map, uint32_t barrier, int x, int y,
                                   int z, uint64_t l2_policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(smem),
      "l"(tensor_map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(l2_policy)
      : "memory");
}

__device__ inline void prefetch_tensor_map(const void* tensor_map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(tensor_map) : "memory");
}

// ---- programmatic dependent launch ----

// Waits until the kernel that this one was launched to overlap with has ended and its writes can be seen.
__device__ inline void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Lets the dependent kernel start once every CTA has said so.
__device__ inline void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- registers ----

template <int N>
__device__ inline void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
__device__ inline void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// ---- arithmetic ----

__device__ inline float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float lg2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct F16 {};
struct Bf16 {};

// Two floats rounded to 16 bits each; `low` goes to the lower half.
__device__ inline uint32_t pack(F16, float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ inline uint32_t pack(Bf16, float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// ---- wgmma: matrix products by a warpgroup, B from shared memory, the accumulator in registers ----

// A shared memory matrix with the 128-byte swizzle, as a wgmma operand: rows of 128 bytes, 8 rows per swizzle
// atom. Strides in bytes. K-major: `stride` from one 8-row group to the next, `leading` unused. MN-major:
// `leading` from one 64-element column group to the next, `stride` from 8 rows of K to the next 8.
__device__ inline uint64_t smem_descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62;
  return kSwizzle128 | uint64_t(stride >> 4) << 32 | uint64_t(leading >> 4) << 16 |
         ((address & 0x3FFFF) >> 4);
}

// Orders this warpgroup's register and shared memory accesses before the wgmmas that follow.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `Pending` of the committed groups are still running.
template <int Pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Tells the compiler that these registers change here: accumulators of wgmmas that have been waited for.
template <int N>
__device__ inline void registers_change(float (&registers)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

#define SGLAB_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SGLAB_R16(d, i) SGLAB_R4(d, i), SGLAB_R4(d, i + 4), SGLAB_R4(d, i + 8), SGLAB_R4(d, i + 12)
#define SGLAB_R32(d, i) SGLAB_R16(d, i), SGLAB_R16(d, i + 16)
#define SGLAB_R128(d) SGLAB_R32(d, 0), SGLAB_R32(d, 32), SGLAB_R32(d, 64), SGLAB_R32(d, 96)

#define SGLAB_D32                                                                                    \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define SGLAB_D128                                                                                         \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "       \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, "   \
  "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "   \
  "%61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, "   \
  "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, "  \
  "%101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, " \
  "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127}"

// The three products of attention, for one element type each:
//   s  (64×64)  = or += A (64×16, smem, K-major) · Bᵀ (64×16, smem, K-major)
//   o (64×256) += A (64×16, registers or smem)   · B  (16×256, smem, MN-major)
#define SGLAB_WGMMA(TAG, TYPE)                                                                       \
  __device__ inline void wgmma_64x64(TAG, float (&d)[32], uint64_t a, uint64_t b, bool accumulate) { \
    asm volatile(                                                                                    \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " SGLAB_D32                    \
        ", %32, %33, p, 1, 1, 0, 0;\n}\n"                                                            \
        : SGLAB_R32(d, 0)                                                                            \
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                                        \
  }                                                                                                  \
  __device__ inline void wgmma_64x256(TAG, float (&d)[128], const uint32_t* a, uint64_t b) {         \
    asm volatile(                                                                                    \
        "{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"                                                   \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " " SGLAB_D128                  \
        ", {%128, %129, %130, %131}, %132, p, 1, 1, 1;\n}\n"                                         \
        : SGLAB_R128(d)                                                                              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                       \
  }                                                                                                  \
  __device__ inline void wgmma_64x256(TAG, float (&d)[128], uint64_t a, uint64_t b) {                \
    asm volatile(                                                                                    \
        "{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"                                                   \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " " SGLAB_D128                  \
        ", %128, %129, p, 1, 1, 0, 1;\n}\n"                                                          \
        : SGLAB_R128(d)                                                                              \
        : "l"(a), "l"(b));                                                                           \
  }
SGLAB_WGMMA(F16, "f16")
SGLAB_WGMMA(Bf16, "bf16")

// Stores a warp's 16×16 block of 16-bit elements, held as wgmma fragments. Lane i addresses row i % 16,
// 8-column half i / 16.
__device__ inline void stmatrix_16x16(uint32_t address, const uint32_t* fragment) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
               : "memory");
}

}  // namespace ptx
