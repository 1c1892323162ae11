// The Blackwell instructions that the SM100 kernels use, one thin wrapper each, named as in the PTX ISA.
#pragma once

#include <cstdint>

namespace ptx {

// ---- shared memory addresses and ordering ----

__device__ inline uint32_t smem_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// The same place in the shared memory of another CTA of the cluster.
__device__ inline uint32_t mapa(const void* pointer, uint32_t cta) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(smem_address(pointer)), "r"(cta));
  return address;
}

__device__ inline uint32_t cluster_ctarank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Ordinary stores to shared memory, made visible to the async proxy: tcgen05.mma and TMA.
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

// All threads of all CTAs of the cluster; whole warps.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ inline void mbarrier_init(uint64_t& barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(&barrier)), "r"(arrivals)
               : "memory");
}

__device__ inline void mbarrier_arrive(uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_address(&barrier)) : "memory");
}

// Arrives, and adds `bytes` to what TMA must still deliver before the phase can complete.
__device__ inline void mbarrier_arrive_expect_tx(uint64_t& barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(&barrier)),
               "r"(bytes)
               : "memory");
}

// The same on a barrier of any CTA of the cluster, by its mapa address.
__device__ inline void mbarrier_arrive_cluster(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void mbarrier_arrive_expect_tx_cluster(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

// Waits until the phase with this parity has completed.
__device__ inline void mbarrier_wait(uint64_t& barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "retry:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra retry;\n"
      "}\n" ::"r"(smem_address(&barrier)),
      "r"(parity)
      : "memory");
}

// The same where threads of another CTA of the cluster arrive, too.
__device__ inline void mbarrier_wait_cluster(uint64_t& barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "retry:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra retry;\n"
      "}\n" ::"r"(smem_address(&barrier)),
      "r"(parity)
      : "memory");
}

// ---- TMA ----

constexpr uint64_t kEvictFirst = 0x12F0000000000000;  // L2 policies, as createpolicy.fractional encodes them
constexpr uint64_t kEvictNormal = 0x1000000000000000;

// To this CTA's shared memory; the barrier, by its mapa address, may be the other CTA's of the pair.
__device__ inline void tma_load_3d(void* smem, const void* tensor_map, uint32_t barrier, int x, int y, int z,
                                   uint64_t l2_policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(smem_address(smem)),
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

// ---- tensor memory ----

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

// What a thread did with tensor memory comes before what it signals with a barrier …
__device__ inline void tcgen05_fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
// … and what it does with tensor memory after what a barrier told it.
__device__ inline void tcgen05_fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

#define SGLAB_R4(op, d, i) op(d[i]), op(d[i + 1]), op(d[i + 2]), op(d[i + 3])
#define SGLAB_R16(op, d, i) \
  SGLAB_R4(op, d, i), SGLAB_R4(op, d, i + 4), SGLAB_R4(op, d, i + 8), SGLAB_R4(op, d, i + 12)
#define SGLAB_R32(op, d) SGLAB_R16(op, d, 0), SGLAB_R16(op, d, 16)
#define SGLAB_D32                                                                                    \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

// A warp's 32 lanes of tensor memory, 32 columns from `address` on: thread i has lane i.
__device__ inline void tcgen05_ld_32(float* d, uint32_t address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 " SGLAB_D32 ", [%32];"
               : SGLAB_R32("=f", d)
               : "r"(address)
               : "memory");
}
__device__ inline void tcgen05_st_32(uint32_t address, const float* d) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], " SGLAB_D32 ";" ::SGLAB_R32("f", d),
               "r"(address)
               : "memory");
}

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

// ---- tcgen05.mma: matrix products of a CTA pair, started by one thread of its even CTA ----

// D (tensor memory) = A · B, or += where `accumulate`. A and B are shared memory descriptors and hold for
// both CTAs.
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

// Once every product that this thread has started is complete, arrives at the barrier, in both CTAs.
__device__ inline void tcgen05_commit(uint64_t& barrier) {
  constexpr uint16_t kBothCtas = 0b11;
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::
          "r"(smem_address(&barrier)),
      "h"(kBothCtas)
      : "memory");
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

// Two floats rounded to 16 bits each; `low` goes to the lower half.
__device__ inline uint32_t pack_f16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace ptx
