// Fences between threads' own accesses and those of the async proxy (TMA, wgmma, tcgen05.mma).
//
// Parallel Synchronization and Communication Instructions: membar, fence
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-membar-fence
#pragma once

namespace ptx {

// Ordinary stores to shared memory, made visible to the async proxy.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Barriers just initialised, made visible to the async proxy and to the cluster's other CTAs.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace ptx
