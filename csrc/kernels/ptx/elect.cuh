// Parallel Synchronization and Communication Instructions: elect.sync
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-elect-sync
#pragma once

#include <cstdint>

namespace ptx {

// True for one thread of the warp; all 32 must call it.
__device__ inline bool elect_sync() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected;
}

}  // namespace ptx
