// PTX instructions as macros, so that their source line is that of the kernel that uses them.
#pragma once
#include <cstdint>

#define ADDRESS(pointer) static_cast<uint32_t>(__cvta_generic_to_shared(pointer))

#define STORE(pointer, value) \
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(ADDRESS(pointer)), "r"(value) : "memory")
#define LOAD(result, pointer) \
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(result) : "r"(ADDRESS(pointer)) : "memory")

#define INIT(barrier, count) \
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ADDRESS(barrier)), "r"(count) : "memory")
#define ARRIVE(barrier) \
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ADDRESS(barrier)) : "memory")
#define ARRIVE_RELAXED(barrier) \
  asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(ADDRESS(barrier)) : "memory")
#define EXPECT(barrier, bytes)                                                                              \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ADDRESS(barrier)), "r"(bytes) \
               : "memory")
#define WAIT_AS(form, barrier, parity)                                  \
  asm volatile("{ .reg .pred p;\n again: mbarrier.try_wait.parity" form \
               ".shared::cta.b64 p, [%0], %1;\n"                        \
               " @!p bra again; }" ::"r"(ADDRESS(barrier)),             \
               "r"(parity)                                              \
               : "memory")
#define WAIT(barrier, parity) WAIT_AS("", barrier, parity)
#define WAIT_RELAXED(barrier, parity) WAIT_AS(".relaxed.cta", barrier, parity)

#define BULK_LOAD(pointer, source, bytes, barrier)                                                     \
  asm volatile(                                                                                        \
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"( \
          ADDRESS(pointer)),                                                                           \
      "l"(source), "r"(bytes), "r"(ADDRESS(barrier))                                                   \
      : "memory")
#define BULK_STORE(target, pointer, bytes)                                                  \
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target), \
               "r"(ADDRESS(pointer)), "r"(bytes)                                            \
               : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT_READ() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define BULK_WAIT() asm volatile("cp.async.bulk.wait_group 0;" ::: "memory")

#define COPY_ASYNC(pointer, source) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ADDRESS(pointer)), "l"(source) : "memory")

#define FENCE_PROXY() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define FENCE_INIT() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")

#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.aligned;" ::: "memory")
#define CLUSTER_ARRIVE_RELAXED() asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.aligned;" ::: "memory")

__device__ inline uint32_t peer_address(const void* pointer) {
  uint32_t rank, address;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(ADDRESS(pointer)), "r"(rank ^ 1u));
  return address;
}

#define STORE_IN_PEER(pointer, value) \
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(peer_address(pointer)), "r"(value) : "memory")
#define ARRIVE_IN_PEER(barrier)                                                                            \
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer_address(barrier)) \
               : "memory")

// A matrix operand without swizzle: 8 rows x 16 bytes side by side, then down.
__device__ inline uint64_t operand(const void* pointer, uint64_t version) {
  return (ADDRESS(pointer) >> 4 & 0x3fff) | uint64_t{128 >> 4} << 16 | uint64_t{256 >> 4} << 32 |
         version << 46;
}

// Both forms of a kernel: with its fault, and right.
#define KERNEL(name)                                                              \
  template <bool kRight>                                                          \
  __device__ __forceinline__ void name##_body(uint32_t* out, const uint32_t* in); \
  extern "C" __global__ void name(uint32_t* out, const uint32_t* in) {            \
    name##_body<false>(out, in);                                                  \
  }                                                                               \
  extern "C" __global__ void name##_right(uint32_t* out, const uint32_t* in) {    \
    name##_body<true>(out, in);                                                   \
  }                                                                               \
  template <bool kRight>                                                          \
  __device__ __forceinline__ void name##_body(uint32_t* out, const uint32_t* in)
