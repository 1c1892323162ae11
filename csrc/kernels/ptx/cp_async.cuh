// Copies of 16 bytes from global to shared memory that a thread starts and waits for by groups.
//
// Data Movement and Conversion Instructions: cp.async
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async
#pragma once

#include <cstdint>

namespace ptx {

// Past L1. Of the 16 bytes only the first `bytes` are read; the others become zeros.
__device__ inline void cp_async_16(uint32_t smem, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem), "l"(global), "r"(bytes)
               : "memory");
}

__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for all but the newest kNewest groups.
template <int kNewest>
__device__ inline void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
}

}  // namespace ptx
