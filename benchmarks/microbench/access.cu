// Microbenchmarks of access patterns: streaming loads, scattered lanes, rows far apart.
#include "clock.cuh"

extern "C" {

// One thread follows a ring of pointers by loads that the L2 cache may give up first. out: cycles of `steps`
__global__ void chase_streaming(uint64_t* out, const uint64_t* first, int steps) {
  const uint64_t* at = first;
  const uint64_t start = clock64_now();
  for (int i = 0; i < steps; ++i) asm volatile("ld.global.cs.u64 %0, [%0];" : "+l"(at)::"memory");
  out[1] = reinterpret_cast<uint64_t>(at);
  out[0] = clock64_now() - start;
}

// One warp; lane i loads at i · stride, every load needing the one before. The memory holds zeros. out:
// cycles
__global__ void scattered(uint64_t* out, const char* source, int stride, int trips) {
  const char* at = source + size_t(threadIdx.x) * stride;
  const uint64_t start = clock64_now();
  for (int i = 0; i < trips; ++i) {
    uint32_t got;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(got) : "l"(at) : "memory");
    at += got;
  }
  if (threadIdx.x == 0) {
    out[1] = reinterpret_cast<uint64_t>(at);
    out[0] = clock64_now() - start;
  }
}

// Loads `rows` rows of 2^row_bits bytes, in scrambled order from memory of 2^bits bytes, 16 bytes per thread
// and eight of them in flight.
__global__ void __launch_bounds__(512)
    gather_rows(const char* source, int bits, int row_bits, uint32_t vectors, uint32_t* out) {
  const uint32_t step = gridDim.x * blockDim.x, mask = (1u << (bits - row_bits)) - 1;
  uint32_t sum = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += 8 * step) {
    uint4 got[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint64_t byte = uint64_t(i + j * step) * 16;
      const uint64_t row = uint32_t(byte >> row_bits) * 2654435761u & mask;
      const char* const at = source + (row << row_bits) + (byte & ((1u << row_bits) - 1));
      asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(got[j].x), "=r"(got[j].y), "=r"(got[j].z), "=r"(got[j].w)
                   : "l"(at)
                   : "memory");
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) sum ^= got[j].x ^ got[j].w;
  }
  if (sum == 0x12345678) *out = sum;
}

// One load or one store per thread and nothing else: what a launch pays to reach memory at all.
__global__ void touch_load(const uint32_t* source, uint32_t* out) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (source[i] == 0x12345678) *out = i;
}
__global__ void touch_store(uint32_t* target) {
  target[blockIdx.x * blockDim.x + threadIdx.x] = 7;
}

}  // extern "C"
