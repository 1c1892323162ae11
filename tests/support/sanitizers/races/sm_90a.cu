// Kernels with one race each, and the same without it. The lines of the two parties are marked.
#include "ptx.cuh"

KERNEL(shared_without_barrier) {
  __shared__ uint32_t words[64];
  STORE(&words[threadIdx.x], in[threadIdx.x]);  // shared_without_barrier: other
  if (kRight) __syncthreads();
  uint32_t value;
  LOAD(value, &words[threadIdx.x ^ 32]);  // shared_without_barrier: at
  out[threadIdx.x] = value;
}

// As in CUTLASS's MLA softmax: each thread passes its peer a number, every iteration.
KERNEL(exchange_without_second_barrier) {
  __shared__ uint32_t exchange[128];
  uint32_t value = in[threadIdx.x];
  for (int i = 0; i < 4; ++i) {
    STORE(&exchange[threadIdx.x], value);  // exchange_without_second_barrier: at
    asm volatile("bar.sync 1, 128;" ::: "memory");
    uint32_t theirs;
    LOAD(theirs, &exchange[(threadIdx.x + 64) % 128]);  // exchange_without_second_barrier: other
    value = max(value, theirs) + 1;
    if (kRight) asm volatile("bar.sync 1, 128;" ::: "memory");
  }
  out[threadIdx.x] = value;
}

KERNEL(lanes_without_warp_sync) {
  __shared__ uint32_t words[32];
  STORE(&words[threadIdx.x], in[threadIdx.x]);  // lanes_without_warp_sync: other
  if (kRight) __syncwarp();
  uint32_t value;
  LOAD(value, &words[31 - threadIdx.x]);  // lanes_without_warp_sync: at
  out[threadIdx.x] = value;
}

// Lane 0 signals the other warp, without any signal that the other lanes have stored.
KERNEL(lane_arrives_for_warp) {
  __shared__ uint32_t words[32];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 1);
  __syncthreads();
  if (threadIdx.x < 32) {
    STORE(&words[threadIdx.x], in[threadIdx.x]);  // lane_arrives_for_warp: other
    if (kRight) __syncwarp();
    if (threadIdx.x == 0) ARRIVE(&barrier);
  } else {
    WAIT(&barrier, 0);
    uint32_t value;
    LOAD(value, &words[threadIdx.x - 32]);  // lane_arrives_for_warp: at
    out[threadIdx.x] = value;
  }
}

KERNEL(lane_copies_for_warp) {
  __shared__ alignas(16) uint32_t words[32];
  STORE(&words[threadIdx.x], in[threadIdx.x]);  // lane_copies_for_warp: other
  FENCE_PROXY();
  if (kRight) __syncwarp();
  if (threadIdx.x == 0) {
    BULK_STORE(out, words, 128);  // lane_copies_for_warp: at
    BULK_COMMIT();
    BULK_WAIT();
  }
}

// All lanes read a word, and lane 0 overwrites it.
KERNEL(lane_overwrites_for_warp) {
  __shared__ uint32_t word;
  if (threadIdx.x == 0) STORE(&word, in[0]);
  __syncthreads();
  for (int i = 0; i < 2; ++i) {
    uint32_t value;
    LOAD(value, &word);  // lane_overwrites_for_warp: at other
    out[32 * i + threadIdx.x] = value;
    if (kRight) __syncwarp();
    if (threadIdx.x == 0) STORE(&word, value + 1);  // lane_overwrites_for_warp: at other
    if (kRight) __syncwarp();
  }
}

KERNEL(lanes_write_one_word) {
  __shared__ uint32_t word;
  if (kRight) {
    atomicAdd(&word, threadIdx.x);
  } else {
    STORE(&word, threadIdx.x);  // lanes_write_one_word: at other
  }
  __syncwarp();
  out[threadIdx.x] = word;
}

KERNEL(ctas_write_one_word) {
  if (!kRight || blockIdx.x == 0) out[threadIdx.x] = blockIdx.x;  // ctas_write_one_word: at other
}

KERNEL(bulk_load_without_wait) {
  __shared__ alignas(16) uint32_t words[64];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    EXPECT(&barrier, 256);
    BULK_LOAD(words, in, 256, &barrier);  // bulk_load_without_wait: other
  }
  __syncthreads();
  if (kRight) WAIT(&barrier, 0);
  uint32_t value;
  LOAD(value, &words[threadIdx.x]);  // bulk_load_without_wait: at
  out[threadIdx.x] = value;
  WAIT(&barrier, 0);
}

// The first warp loads the next tile without waiting until the second has read this one.
KERNEL(bulk_load_into_a_buffer_in_use) {
  __shared__ alignas(16) uint32_t words[32];
  __shared__ uint64_t full[3], empty[3];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) {
      INIT(&full[i], 1);
      INIT(&empty[i], 32);
    }
  }
  __syncthreads();
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x == 0) {
      if (i > 0) WAIT(kRight ? &empty[i - 1] : &full[i - 1], 0);
      EXPECT(&full[i], 128);
      BULK_LOAD(words, in + 32 * i, 128, &full[i]);  // bulk_load_into_a_buffer_in_use: at
    } else if (threadIdx.x >= 32) {
      WAIT(&full[i], 0);
      uint32_t value;
      LOAD(value, &words[threadIdx.x - 32]);  // bulk_load_into_a_buffer_in_use: other
      out[32 * i + threadIdx.x - 32] = value;
      ARRIVE(&empty[i]);
    }
  }
}

KERNEL(bulk_store_without_proxy_fence) {
  __shared__ alignas(16) uint32_t words[64];
  STORE(&words[threadIdx.x], in[threadIdx.x]);  // bulk_store_without_proxy_fence: other
  if (kRight) FENCE_PROXY();
  __syncthreads();
  if (threadIdx.x == 0) {
    BULK_STORE(out, words, 256);  // bulk_store_without_proxy_fence: at
    BULK_COMMIT();
    BULK_WAIT();
  }
}

KERNEL(bulk_store_source_overwritten) {
  __shared__ alignas(16) uint32_t words[64];
  for (int i = 0; i < 2; ++i) {
    STORE(&words[threadIdx.x], in[threadIdx.x] + i);  // bulk_store_source_overwritten: at
    FENCE_PROXY();
    __syncthreads();
    if (threadIdx.x == 0) {
      BULK_STORE(out + 64 * i, words, 256);  // bulk_store_source_overwritten: other
      BULK_COMMIT();
      if (kRight) BULK_WAIT_READ();
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) BULK_WAIT();
}

KERNEL(cp_async_without_wait) {
  __shared__ alignas(16) uint32_t words[256];
  COPY_ASYNC(&words[4 * threadIdx.x], in + 4 * threadIdx.x);  // cp_async_without_wait: other
  asm volatile("cp.async.commit_group;" ::: "memory");
  if (kRight) asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  uint32_t value;
  LOAD(value, &words[255 - threadIdx.x]);  // cp_async_without_wait: at
  out[threadIdx.x] = value;
}

// One group too few is waited for, as in the loads of CUTLASS's cp.async MLA kernel.
KERNEL(cp_async_wait_too_short) {
  __shared__ alignas(16) uint32_t words[2][256];
  for (int i = 0; i < 2; ++i) {
    COPY_ASYNC(&words[i][4 * threadIdx.x], in + 256 * i + 4 * threadIdx.x);  // cp_async_wait_too_short: other
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  if (kRight) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  }
  __syncthreads();
  uint32_t value;
  LOAD(value, &words[0][255 - threadIdx.x]);  // cp_async_wait_too_short: at
  out[threadIdx.x] = value;
}

#define WGMMA_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA(d, a, b)                                                                                      \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                             \
               : "l"(operand(a, 0)), "l"(operand(b, 0))                                                     \
               : "memory")
#define WGMMA_COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT() asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")

KERNEL(wgmma_without_proxy_fence) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  for (uint32_t i = threadIdx.x; i < 512; i += 128) a[i] = 0x3c003c00;
  FENCE_PROXY();
  if (threadIdx.x < 64) STORE(&b[threadIdx.x], in[threadIdx.x]);  // wgmma_without_proxy_fence: other
  if (kRight) {
    FENCE_PROXY();
  } else {
    asm volatile("fence.proxy.async.global;" ::: "memory");
  }
  __syncthreads();
  float d[4] = {};
  WGMMA_FENCE();
  WGMMA(d, a, b);  // wgmma_without_proxy_fence: at
  WGMMA_COMMIT();
  WGMMA_WAIT();
  out[threadIdx.x] = __float_as_uint(d[0] + d[1] + d[2] + d[3]);
}

// Each warp stores the sixteen rows of A that it reads itself: bar.warp.sync is enough for those, not for B.
KERNEL(wgmma_operand_of_another_warp) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  uint32_t* const rows = a + threadIdx.x / 32 * 128;
  for (uint32_t i = threadIdx.x % 32; i < 128; i += 32) rows[i] = in[i];
  if (threadIdx.x < 64) STORE(&b[threadIdx.x], in[threadIdx.x]);  // wgmma_operand_of_another_warp: other
  FENCE_PROXY();
  if (kRight) __syncthreads();
  for (uint32_t i = threadIdx.x % 32; i < 128; i += 32) rows[i] += 1;
  FENCE_PROXY();
  __syncwarp();
  float d[4] = {};
  WGMMA_FENCE();
  WGMMA(d, a, b);  // wgmma_operand_of_another_warp: at
  WGMMA_COMMIT();
  WGMMA_WAIT();
  out[threadIdx.x] = __float_as_uint(d[0] + d[1] + d[2] + d[3]);
}

KERNEL(wgmma_operand_overwritten) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  for (uint32_t i = threadIdx.x; i < 512; i += 128) a[i] = 0x3c003c00;
  if (threadIdx.x < 64) b[threadIdx.x] = in[threadIdx.x];
  FENCE_PROXY();
  __syncthreads();
  float d[4] = {};
  WGMMA_FENCE();
  WGMMA(d, a, b);  // wgmma_operand_overwritten: other
  WGMMA_COMMIT();
  if (kRight) WGMMA_WAIT();
  __syncthreads();
  if (threadIdx.x < 64) STORE(&b[threadIdx.x], 0);  // wgmma_operand_overwritten: at
  WGMMA_WAIT();
  out[threadIdx.x] = __float_as_uint(d[0] + d[1] + d[2] + d[3]);
}

#define DOUBLE(value) asm volatile("add.f32 %0, %0, %0;" : "+f"(value)::"memory")

__device__ __forceinline__ void fill_operands(uint32_t* a, uint32_t* b, const uint32_t* in) {
  for (uint32_t i = threadIdx.x; i < 512; i += 128) a[i] = 0x3c003c00;
  if (threadIdx.x < 64) b[threadIdx.x] = in[threadIdx.x];
  FENCE_PROXY();
  __syncthreads();
}

// Accumulators are scaled between two products.
KERNEL(wgmma_fence_missing) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  fill_operands(a, b, in);
  float d[4] = {};
  WGMMA_FENCE();
  WGMMA(d, a, b);
  WGMMA_COMMIT();
  WGMMA_WAIT();
  for (int i = 0; i < 4; ++i) DOUBLE(d[i]);  // wgmma_fence_missing: other
  if (kRight) WGMMA_FENCE();
  WGMMA(d, a, b);  // wgmma_fence_missing: at
  WGMMA_COMMIT();
  WGMMA_WAIT();
  out[threadIdx.x] = __float_as_uint(d[0] + d[1] + d[2] + d[3]);
}

KERNEL(wgmma_without_any_fence) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  fill_operands(a, b, in);
  float d[4] = {};
  if (kRight) WGMMA_FENCE();
  WGMMA(d, a, b);  // wgmma_without_any_fence: at
  WGMMA_COMMIT();
  WGMMA_WAIT();
  out[threadIdx.x] = __float_as_uint(d[0] + d[1] + d[2] + d[3]);
}

KERNEL(wgmma_accumulators_read_early) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  fill_operands(a, b, in);
  float d[4] = {};
  WGMMA_FENCE();
  WGMMA(d, a, b);  // wgmma_accumulators_read_early: other
  WGMMA_COMMIT();
  if (kRight) WGMMA_WAIT();
  for (int i = 0; i < 4; ++i) DOUBLE(d[i]);  // wgmma_accumulators_read_early: at
  WGMMA_WAIT();
  out[threadIdx.x] = __float_as_uint(d[0] + d[1] + d[2] + d[3]);
}

// The A matrix comes from registers, which get their next values while the product runs.
KERNEL(wgmma_a_registers_overwritten) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  fill_operands(a, b, in);
  float d[4] = {};
  uint32_t fragment = in[threadIdx.x];
  for (int i = 0; i < 3; ++i) {
    asm volatile("add.u32 %0, %0, 1;" : "+r"(fragment)::"memory");  // wgmma_a_registers_overwritten: at
    WGMMA_FENCE();
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %4, %4, %4}, %5, 1, 1, 1, "
        "0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(fragment), "l"(operand(b, 0))  // wgmma_a_registers_overwritten: other
        : "memory");
    WGMMA_COMMIT();
    if (kRight) WGMMA_WAIT();
  }
  WGMMA_WAIT();
  out[threadIdx.x] = __float_as_uint(d[0] + d[1] + d[2] + d[3]);
}

KERNEL(cluster_barrier_relaxed) {
  __shared__ uint32_t words[32];
  STORE_IN_PEER(&words[threadIdx.x], in[threadIdx.x]);  // cluster_barrier_relaxed: other
  if (kRight) {
    CLUSTER_ARRIVE();
  } else {
    CLUSTER_ARRIVE_RELAXED();
  }
  CLUSTER_WAIT();
  uint32_t value;
  LOAD(value, &words[threadIdx.x]);  // cluster_barrier_relaxed: at
  out[32 * blockIdx.x + threadIdx.x] = value;
  CLUSTER_ARRIVE();
  CLUSTER_WAIT();
}

// The second CTA may be gone by the time that the first stores there, whether or not it is in this order.
KERNEL(peer_may_have_exited) {  // peer_may_have_exited: other
  __shared__ uint32_t words[32];
  CLUSTER_ARRIVE();
  CLUSTER_WAIT();
  if (blockIdx.x == 0) STORE_IN_PEER(&words[threadIdx.x], in[threadIdx.x]);  // peer_may_have_exited: at
  if (kRight) {
    __syncwarp();
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
  }
}

KERNEL(arrival_at_peer_that_may_have_exited) {  // arrival_at_peer_that_may_have_exited: other
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 1);
  __syncwarp();
  CLUSTER_ARRIVE();
  CLUSTER_WAIT();
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) ARRIVE_IN_PEER(&barrier);  // arrival_at_peer_that_may_have_exited: at
  } else if (kRight) {
    WAIT(&barrier, 0);
  }
}

KERNEL(cluster_without_barrier) {
  __shared__ uint32_t words[32];
  STORE_IN_PEER(&words[threadIdx.x], in[threadIdx.x]);  // cluster_without_barrier: other
  if (kRight) {
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
  } else {
    __syncthreads();
  }
  uint32_t value;
  LOAD(value, &words[threadIdx.x]);  // cluster_without_barrier: at
  out[32 * blockIdx.x + threadIdx.x] = value;
  CLUSTER_ARRIVE();
  CLUSTER_WAIT();
}

KERNEL(mbarrier_init_without_fence) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    INIT(&barrier, 1);  // mbarrier_init_without_fence: other
    if (kRight) FENCE_INIT();
  }
  __syncwarp();
  CLUSTER_ARRIVE_RELAXED();
  CLUSTER_WAIT();
  if (threadIdx.x == 0) ARRIVE_IN_PEER(&barrier);  // mbarrier_init_without_fence: at
  WAIT(&barrier, 0);
  CLUSTER_ARRIVE();
  CLUSTER_WAIT();
  out[32 * blockIdx.x + threadIdx.x] = in[threadIdx.x];
}

#define REPLACE(map, field) asm volatile("tensormap.replace.tile." field ";" ::"r"(ADDRESS(map)) : "memory")
#define COPY_MAP(target, map)                                                                               \
  asm volatile(                                                                                             \
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], " \
      "128;" ::"l"(target),                                                                                 \
      "r"(ADDRESS(map))                                                                                     \
      : "memory")
#define RELEASE_MAP() asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory")
#define ACQUIRE_MAP(map) \
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory")
#define TENSOR_LOAD_1D(pointer, map, barrier)                                                          \
  asm volatile(                                                                                        \
      "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], " \
      "[%3];" ::"r"(ADDRESS(pointer)),                                                                 \
      "l"(map), "r"(0), "r"(ADDRESS(barrier))                                                          \
      : "memory")

// In shared memory, the map of 32 words.
__device__ __forceinline__ void make_map(uint32_t* map, const uint32_t* words) {
  map[threadIdx.x] = 0;
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(ADDRESS(map)),
                 "l"(words)
                 : "memory");
    REPLACE(map, "rank.shared::cta.b1024.b32 [%0], 0");
    REPLACE(map, "box_dim.shared::cta.b1024.b32 [%0], 0, 32");
    REPLACE(map, "global_dim.shared::cta.b1024.b32 [%0], 0, 32");
    REPLACE(map, "element_stride.shared::cta.b1024.b32 [%0], 0, 1");
    REPLACE(map, "elemtype.shared::cta.b1024.b32 [%0], 2");
    REPLACE(map, "interleave_layout.shared::cta.b1024.b32 [%0], 0");
    REPLACE(map, "swizzle_mode.shared::cta.b1024.b32 [%0], 0");
    REPLACE(map, "fill_mode.shared::cta.b1024.b32 [%0], 0");
  }
  __syncwarp();
}

// Builds a tensor map, in out[64...], and copies by it.
KERNEL(tensor_map_not_acquired) {
  __shared__ alignas(128) uint32_t map[32], words[32];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 1);
  make_map(map, in);
  COPY_MAP(out + 64, map);  // tensor_map_not_acquired: other
  ACQUIRE_MAP(kRight ? out + 64 : out);
  __syncwarp();
  if (threadIdx.x == 0) {
    EXPECT(&barrier, 128);
    TENSOR_LOAD_1D(words, out + 64, &barrier);  // tensor_map_not_acquired: at
  }
  WAIT(&barrier, 0);
  out[threadIdx.x] = words[threadIdx.x];
}

KERNEL(tensor_map_not_released) {
  __shared__ alignas(128) uint32_t map[32], words[32];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 1);
  make_map(map, in);
  out[64 + threadIdx.x] = map[threadIdx.x];  // tensor_map_not_released: other
  if (kRight) RELEASE_MAP();
  __syncthreads();
  if (threadIdx.x == 0) {
    ACQUIRE_MAP(out + 64);
    EXPECT(&barrier, 128);
    TENSOR_LOAD_1D(words, out + 64, &barrier);  // tensor_map_not_released: at
  }
  WAIT(&barrier, 0);
  out[threadIdx.x] = words[threadIdx.x];
}

// out[0]: flag, out[32...]: what it announces.
#define ANNOUNCE(store, fence_before, load, fence_behind)                                              \
  if (blockIdx.x == 0) {                                                                               \
    out[32 + threadIdx.x] = in[threadIdx.x];                                                           \
    __syncthreads();                                                                                   \
    if (threadIdx.x == 0) asm volatile(fence_before store " [%0], 1;" ::"l"(out) : "memory");          \
  } else {                                                                                             \
    uint32_t flag = 0;                                                                                 \
    while (flag == 0) asm volatile(load " %0, [%1];" fence_behind : "=r"(flag) : "l"(out) : "memory"); \
    out[64 + threadIdx.x] = out[32 + threadIdx.x];                                                     \
  }

KERNEL(flag_without_fence) {
  if (kRight) {
    ANNOUNCE("st.volatile.global.u32", "fence.acq_rel.gpu;", "ld.volatile.global.u32", "fence.acq_rel.gpu;")
  } else {
    ANNOUNCE("st.volatile.global.u32", "", "ld.volatile.global.u32", "")  // flag_without_fence: at other
  }
}

KERNEL(flag_of_cta_scope) {
  if (kRight) {
    ANNOUNCE("st.release.gpu.global.u32", "", "ld.acquire.gpu.global.u32", "")
  } else {
    ANNOUNCE("st.release.cta.global.u32", "", "ld.acquire.gpu.global.u32", "")  // flag_of_cta_scope: at other
  }
}

KERNEL(lanes_add_without_atomic) {
  __shared__ uint32_t word;
  if (threadIdx.x == 0) word = 0;
  __syncwarp();
  if (kRight) {
    atomicAdd(&word, in[threadIdx.x]);
  } else {
    word += in[threadIdx.x];  // lanes_add_without_atomic: at other
  }
  __syncwarp();
  out[threadIdx.x] = word;
}

KERNEL(warps_add_without_atomic) {
  __shared__ uint32_t words[32];
  if (threadIdx.x < 32) words[threadIdx.x] = 0;
  __syncthreads();
  if (kRight) {
    atomicAdd(&words[threadIdx.x % 32], in[threadIdx.x] + 1);
  } else {
    words[threadIdx.x % 32] += in[threadIdx.x] + 1;  // warps_add_without_atomic: at other
  }
  __syncthreads();
  out[threadIdx.x] = words[threadIdx.x % 32];
}
