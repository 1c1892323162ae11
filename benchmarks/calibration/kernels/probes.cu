// What one access costs, by pattern: figures of the timing model come from these. Cycles are of the SM's
// clock.
#include <cstdint>

#define KERNEL(threads) __global__ void __launch_bounds__(threads)

namespace {

__device__ uint64_t now() {
  uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

// Runs body(trip) between two barriers of the CTA; out: cycles, by CTA.
template <class Body>
__device__ void timed(uint64_t* out, int trips, Body body) {
  __syncthreads();
  const uint64_t start = now();
  for (int trip = 0; trip < trips; trip += 4) {
#pragma unroll
    for (int k = 0; k < 4; ++k) body(trip + k);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = now() - start;
}

}  // namespace

extern "C" {

// Where CTAs come to lie: their SM, and when they began (ns). Each stays for `cycles`.
KERNEL(1024) placement(uint64_t* out, int cycles) {
  const uint64_t start = now();
  if (threadIdx.x == 0) {
    uint32_t sm;
    uint64_t time;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    out[2 * blockIdx.x] = sm;
    out[2 * blockIdx.x + 1] = time;
  }
  while (now() - start < static_cast<uint64_t>(cycles)) {
  }
}

// Lanes store words `stride` bytes apart; a CTA has `bytes` of its own, a power of two.
KERNEL(1024) store_words(uint64_t* out, char* memory, int trips, int stride, int bytes) {
  char* const own = memory + size_t(blockIdx.x) * bytes;
  timed(out, trips, [&](int trip) {
    const uint32_t at = (trip * blockDim.x + threadIdx.x) * stride & (bytes - 1);
    asm volatile("st.global.b32 [%0], %1;" ::"l"(own + at), "r"(trip) : "memory");
  });
}

KERNEL(1024) store_vectors(uint64_t* out, char* memory, int trips, int stride, int bytes) {
  char* const own = memory + size_t(blockIdx.x) * bytes;
  timed(out, trips, [&](int trip) {
    const uint32_t at = (trip * blockDim.x + threadIdx.x) * stride & (bytes - 1);
    asm volatile("st.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(own + at), "r"(trip) : "memory");
  });
}

// Lanes load words `stride` bytes apart, past L1.
KERNEL(1024) load_words(uint64_t* out, char* memory, int trips, int stride, int bytes) {
  const char* const own = memory + size_t(blockIdx.x) * bytes;
  uint32_t sum = 0;
  timed(out, trips, [&](int trip) {
    const uint32_t at = (trip * blockDim.x + threadIdx.x) * stride & (bytes - 1);
    uint32_t got;
    asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(got) : "l"(own + at) : "memory");
    sum += got;
  });
  if (sum == 0x12345678) out[0] = sum;
}

// The same from L1: `bytes` are few enough.
KERNEL(1024) load_cached(uint64_t* out, char* memory, int trips, int stride, int bytes) {
  const char* const own = memory + size_t(blockIdx.x) * bytes;
  uint32_t sum = 0;
  timed(out, trips, [&](int trip) {
    const uint32_t at = (trip * blockDim.x + threadIdx.x) * stride & (bytes - 1);
    uint32_t got;
    asm volatile("ld.global.ca.b32 %0, [%1];" : "=r"(got) : "l"(own + at) : "memory");
    sum += got;
  });
  if (sum == 0x12345678) out[0] = sum;
}

// Reductions on global words `stride` bytes apart.
KERNEL(1024) reduce_global(uint64_t* out, char* memory, int trips, int stride, int bytes) {
  char* const own = memory + size_t(blockIdx.x) * bytes;
  timed(out, trips, [&](int trip) {
    const uint32_t at = (trip * blockDim.x + threadIdx.x) * stride & (bytes - 1);
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(own + at), "r"(1) : "memory");
  });
}

// Reductions of all CTAs on the same words: one line of 128 bytes after another by trip,
// and in it the words of the warp's first `lanes` lanes; lanes < 0: that many lanes, all on the first word.
KERNEL(1024) reduce_same(uint64_t* out, char* memory, int trips, int lanes, int lines) {
  const int lane = threadIdx.x % 32, word = lanes < 0 ? 0 : lane;
  timed(out, trips, [&](int trip) {
    char* const at = memory + (trip + blockIdx.x) % lines * 128 + word * 4;
    if (lane < abs(lanes)) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(at), "r"(1) : "memory");
  });
}

KERNEL(1024) reduce_same_float(uint64_t* out, char* memory, int trips, int lanes, int lines) {
  const int lane = threadIdx.x % 32, word = lanes < 0 ? 0 : lane;
  timed(out, trips, [&](int trip) {
    char* const at = memory + (trip + blockIdx.x) % lines * 128 + word * 4;
    if (lane < abs(lanes)) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(at), "f"(1.0f) : "memory");
  });
}

// Reductions in shared memory: `lanes` of a warp name one word, and warps other ones.
KERNEL(1024) reduce_shared(uint64_t* out, char* memory, int trips, int lanes, int) {
  __shared__ uint32_t room[1024];
  room[threadIdx.x] = 0;
  const int at = threadIdx.x & ~(lanes - 1);
  timed(out, trips, [&](int) {
    asm volatile(
        "red.shared.add.u32 [%0], 1;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(room + at)))
        : "memory");
  });
  if (memory == nullptr) out[1] = room[threadIdx.x];
}

// Reductions in shared memory on words of which `ways` share a bank.
KERNEL(1024) reduce_shared_banks(uint64_t* out, char* memory, int trips, int ways, int) {
  __shared__ uint32_t room[1024];
  const int at = threadIdx.x * ways % 1024 + threadIdx.x * ways / 1024;
  timed(out, trips, [&](int) {
    asm volatile(
        "red.shared.add.u32 [%0], 1;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(room + at)))
        : "memory");
  });
  if (memory == nullptr) out[1] = room[threadIdx.x];
}

// Stores to shared memory of which `ways` meet in a bank.
KERNEL(1024) store_shared(uint64_t* out, char* memory, int trips, int ways, int) {
  __shared__ uint32_t room[1024];
  const int at = threadIdx.x * ways % 1024 + threadIdx.x * ways / 1024 % ways;
  timed(out, trips, [&](int trip) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(room + at))),
                 "r"(trip)
                 : "memory");
  });
  if (memory == nullptr) out[1] = room[threadIdx.x];
}

}  // extern "C"
