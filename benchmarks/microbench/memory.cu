// Microbenchmarks of memory and synchronisation. Latencies come from the SM's clock, bandwidths from events
// around the launch.
#include <cstdint>

#include "../../csrc/kernels/ptx/barrier.cuh"
#include "../../csrc/kernels/ptx/fence.cuh"
#include "clock.cuh"

namespace {

__device__ inline void bulk_load(uint32_t smem, const void* global, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ inline void bulk_store(void* global, uint32_t smem, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(smem),
               "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ inline void tensor_load(uint32_t smem, const void* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(smem),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

struct alignas(128) Map {
  char bytes[128];
};

}  // namespace

extern "C" {

__global__ void empty() {}

// out: cycles and nanoseconds of a fixed number of dependent additions
__global__ void clock_rate(uint64_t* out, int trips, float step) {
  float value = step;
  const uint64_t cycles = clock64_now(), time = nanoseconds_now();
  for (int i = 0; i < trips; ++i) value = fmaf(value, step, 1.0f);
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    out[2] = static_cast<uint64_t>(value);
    out[0] = clock64_now() - cycles;
    out[1] = nanoseconds_now() - time;
  }
}

// One thread follows a ring of pointers. out: cycles of `steps`
__global__ void chase_l1(uint64_t* out, const uint64_t* first, int steps) {
  const uint64_t* at = first;
  const uint64_t start = clock64_now();
  for (int i = 0; i < steps; ++i) asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(at)::"memory");
  out[1] = reinterpret_cast<uint64_t>(at);
  out[0] = clock64_now() - start;
}
__global__ void chase_l2(uint64_t* out, const uint64_t* first, int steps) {
  const uint64_t* at = first;
  const uint64_t start = clock64_now();
  for (int i = 0; i < steps; ++i) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
  out[1] = reinterpret_cast<uint64_t>(at);
  out[0] = clock64_now() - start;
}
__global__ void chase_atomic(uint64_t* out, uint32_t* counter, int steps) {
  uint32_t value = 0;
  const uint64_t start = clock64_now();
  for (int i = 0; i < steps; ++i)
    asm volatile("atom.global.add.u32 %0, [%1], %0;" : "+r"(value) : "l"(counter) : "memory");
  out[1] = value;
  out[0] = clock64_now() - start;
}

// One warp at a time loads whole lines that are in its L1. out: cycles of CTA 0
__global__ void l1_bandwidth(uint64_t* out, const uint4* source, int trips) {
  uint4 sum{};
  __syncthreads();
  const uint64_t start = clock64_now();
  for (int i = 0; i < trips; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint4 got;
      asm volatile("ld.global.ca.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(got.x), "=r"(got.y), "=r"(got.z), "=r"(got.w)
                   : "l"(source + j * 512 + threadIdx.x)
                   : "memory");
      sum.x ^= got.x;
      sum.y ^= got.y;
    }
  }
  out[2 + threadIdx.x % 2] = sum.x ^ sum.y;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = clock64_now() - start;
}

// All CTAs read `vectors` of 16 bytes, `passes` times.
__global__ void __launch_bounds__(1024)
    read_stream(const uint4* source, uint64_t vectors, int passes, uint32_t* out) {
  const uint64_t step = uint64_t(gridDim.x) * blockDim.x;
  uint32_t sum = 0;
  for (int pass = 0; pass < passes; ++pass) {
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += 8 * step) {
      uint4 got[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        got[j] = uint4{};
        if (i + j * step < vectors)
          asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                       : "=r"(got[j].x), "=r"(got[j].y), "=r"(got[j].z), "=r"(got[j].w)
                       : "l"(source + i + j * step)
                       : "memory");
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) sum ^= got[j].x ^ got[j].w;
    }
  }
  if (sum == 0x12345678) *out = sum;
}

__global__ void __launch_bounds__(1024) write_stream(uint4* target, uint64_t vectors, uint32_t value) {
  const uint64_t step = uint64_t(gridDim.x) * blockDim.x;
  for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += step)
    target[i] = uint4{value, value, value, value};
}

// Each CTA streams `chunks` chunks through a ring of 8 with bulk copies, `passes` times; `group` CTAs next to
// each other read the same chunks. out: cycles by CTA
__global__ void bulk_stream(uint64_t* out, const char* source, int bytes, int chunks, int passes, int group) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ uint64_t barriers[8];
  const uint32_t base = ptx::smem_address(memory), first = ptx::smem_address(barriers);
  if (threadIdx.x != 0) return;
  for (int i = 0; i < 8; ++i) ptx::mbarrier_init(first + 8 * i, 1);
  ptx::fence_mbarrier_init();
  const char* const own = source + size_t(blockIdx.x / group) * chunks * bytes;
  const int total = chunks * passes;
  const uint64_t start = clock64_now();
  for (int i = 0; i < total + 8; ++i) {
    const uint32_t barrier = first + 8 * (i % 8);
    if (i >= 8) ptx::mbarrier_wait(barrier, (i / 8 - 1) & 1);
    if (i < total) {
      ptx::mbarrier_arrive_expect_tx(barrier, bytes);
      bulk_load(base + i % 8 * bytes, own + size_t(i % chunks) * bytes, bytes, barrier);
    }
  }
  out[blockIdx.x] = clock64_now() - start;
}

// Issue to completion of one copy at a time. out: cycles of `trips`: bulk loads, tensor loads, bulk stores
// until read, bulk stores until written
__global__ void copy_latency(uint64_t* out, char* global, const __grid_constant__ Map map, int bytes,
                             int trips) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ uint64_t word;
  const uint32_t base = ptx::smem_address(memory), barrier = ptx::smem_address(&word);
  ptx::mbarrier_init(barrier, 1);
  ptx::fence_mbarrier_init();
  uint64_t start = clock64_now();
  for (int i = 0; i < trips; ++i) {
    ptx::mbarrier_arrive_expect_tx(barrier, bytes);
    bulk_load(base, global, bytes, barrier);
    ptx::mbarrier_wait(barrier, i & 1);
  }
  out[0] = clock64_now() - start;
  start = clock64_now();
  for (int i = 0; i < trips; ++i) {
    ptx::mbarrier_arrive_expect_tx(barrier, 64 * 64 * 2);
    tensor_load(base, &map, barrier, 0, 0);
    ptx::mbarrier_wait(barrier, (i + trips) & 1);
  }
  out[1] = clock64_now() - start;
  start = clock64_now();
  for (int i = 0; i < trips; ++i) {
    bulk_store(global, base, bytes);
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  out[2] = clock64_now() - start;
  start = clock64_now();
  for (int i = 0; i < trips; ++i) {
    bulk_store(global, base, bytes);
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  out[3] = clock64_now() - start;
}

// cp.async of 16 bytes per thread, waited for. out: cycles of `trips` groups of `depth` per thread
__global__ void cp_async(uint64_t* out, const char* source, int depth, int trips) {
  extern __shared__ __align__(1024) char memory[];
  const uint32_t base = ptx::smem_address(memory) + 16 * threadIdx.x;
  __syncthreads();
  const uint64_t start = clock64_now();
  for (int i = 0; i < trips; ++i) {
    for (int j = 0; j < depth; ++j)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + 16 * blockDim.x * j),
                   "l"(source + 16 * (blockDim.x * j + threadIdx.x))
                   : "memory");
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = clock64_now() - start;
}

// out: cycles of `trips`: an arrival and the wait for it; a ping-pong between two warps; arrivals alone
__global__ void mbarriers(uint64_t* out, int trips) {
  __shared__ uint64_t words[2];
  const uint32_t a = ptx::smem_address(words), b = a + 8;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(a, 1);
    ptx::mbarrier_init(b, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    uint64_t start = clock64_now();
    for (int i = 0; i < trips; ++i) {
      ptx::mbarrier_arrive(a);
      ptx::mbarrier_wait(a, i & 1);
    }
    out[0] = clock64_now() - start;
    start = clock64_now();
    for (int i = 0; i < trips; ++i) ptx::mbarrier_arrive(a);
    out[2] = clock64_now() - start;
  }
  __syncthreads();  // an even number of phases of `a` has passed
  const uint64_t start = clock64_now();
  if (threadIdx.x == 0) {
    for (int i = 0; i < trips; ++i) {
      ptx::mbarrier_arrive(a);
      ptx::mbarrier_wait(b, i & 1);
    }
    out[1] = clock64_now() - start;
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < trips; ++i) {
      ptx::mbarrier_wait(a, i & 1);
      ptx::mbarrier_arrive(b);
    }
  }
}

// Two CTAs: out: cycles of `trips` cluster barriers; of `trips` dependent loads from the other CTA
__global__ void __cluster_dims__(2, 1, 1) cluster(uint64_t* out, int trips) {
  __shared__ uint32_t words[32];
  uint32_t address = ptx::smem_address(words), rank, other;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(address), "r"(rank ^ 1));
  uint32_t own;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(own) : "r"(address), "r"(rank));
  words[threadIdx.x] = own;  // what the other CTA reads is its `other`
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  uint64_t start = clock64_now();
  for (int i = 0; i < trips; ++i)
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0 && rank == 0) out[0] = clock64_now() - start;
  start = clock64_now();
  for (int i = 0; i < trips; ++i) asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(other)::"memory");
  if (threadIdx.x == 0 && rank == 0) {
    out[2] = other;
    out[1] = clock64_now() - start;
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Every CTA waits `cycles`. out, by CTA: when it started and ended, in ns
__global__ void waves(uint64_t* out, int cycles) {
  const uint64_t time = nanoseconds_now(), start = clock64_now();
  while (clock64_now() - start < cycles) {
  }
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = time;
    out[2 * blockIdx.x + 1] = nanoseconds_now();
  }
}

}  // extern "C"
