// The clocks that kernels read.
#pragma once

#include <cstdint>

__device__ inline uint64_t clock64_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

__device__ inline uint64_t nanoseconds_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
