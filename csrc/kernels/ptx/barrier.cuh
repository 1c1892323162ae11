// Barriers of a CTA and of a cluster, and mbarriers.
#pragma once

#include <cstdint>

#include "address.cuh"

namespace ptx {

// Parallel Synchronization and Communication Instructions: bar, barrier
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-bar
//
// The named barrier `barrier` of this CTA: waits until `threads` threads, whole warps, are there.
__device__ inline void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Parallel Synchronization and Communication Instructions: barrier.cluster
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-barrier-cluster
//
// All threads of all CTAs of the cluster; whole warps.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// An mbarrier of this CTA: the object, or its address in shared memory.
struct Mbarrier {
  uint32_t address;
  __device__ Mbarrier(const uint64_t& object) : address(smem_address(&object)) {}
  __device__ Mbarrier(uint32_t address) : address(address) {}
};

// Parallel Synchronization and Communication Instructions: mbarrier.init
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-init
__device__ inline void mbarrier_init(Mbarrier barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.address), "r"(arrivals) : "memory");
}

// Parallel Synchronization and Communication Instructions: mbarrier.arrive
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-arrive
__device__ inline void mbarrier_arrive(Mbarrier barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier.address) : "memory");
}

// Arrives, and adds `bytes` to what TMA must still deliver before the phase can complete.
__device__ inline void mbarrier_arrive_expect_tx(Mbarrier barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier.address), "r"(bytes)
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

// Parallel Synchronization and Communication Instructions: mbarrier.test_wait, mbarrier.try_wait
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-mbarrier-try-wait
//
// Waits until the phase with this parity has completed. try_wait itself gives up after a while; hence the
// loop.
__device__ inline void mbarrier_wait(Mbarrier barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "retry:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra retry;\n"
      "}\n" ::"r"(barrier.address),
      "r"(parity)
      : "memory");
}

// The same where threads of another CTA of the cluster arrive, too.
__device__ inline void mbarrier_wait_cluster(Mbarrier barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "retry:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra retry;\n"
      "}\n" ::"r"(barrier.address),
      "r"(parity)
      : "memory");
}

}  // namespace ptx
