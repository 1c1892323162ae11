// Kernels with one fault each, and the same without it: memory that was never written, barriers misused. The
// lines of the two parties are marked.
#include "../races/ptx.cuh"

#define INVALIDATE(barrier) \
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(ADDRESS(barrier)) : "memory")
#define EXPECT_ONLY(barrier, bytes)                                                                \
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(ADDRESS(barrier)), \
               "r"(bytes)                                                                          \
               : "memory")
#define BARRIER(number, threads) asm volatile("bar.sync %0, %1;" ::"n"(number), "r"(threads) : "memory")
#define BARRIER_ARRIVE(number, threads) \
  asm volatile("bar.arrive %0, %1;" ::"n"(number), "r"(threads) : "memory")

#define MULTIPLY(sum, value)                                                                                 \
  asm volatile(                                                                                              \
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%4}, {%0, %1, %2, %3};" \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                               \
      : "r"(value))
#define LOAD_MATRIX(result, pointer)                                  \
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" \
               : "=r"(result)                                         \
               : "r"(ADDRESS(pointer))                                \
               : "memory")

KERNEL(shared_never_written) {
  __shared__ uint32_t words[64];
  if (kRight || threadIdx.x < 32) STORE(&words[threadIdx.x], in[threadIdx.x]);
  __syncthreads();
  uint32_t value;
  LOAD(value, &words[threadIdx.x]);  // shared_never_written: at
  out[threadIdx.x] = value + 1;      // shared_never_written: other
}

// Reading garbage that is then masked away is no fault.
KERNEL(shared_never_written_decides) {
  __shared__ uint32_t words[64];
  if (threadIdx.x < 32) STORE(&words[threadIdx.x], in[threadIdx.x]);
  __syncthreads();
  uint32_t value;
  LOAD(value, &words[threadIdx.x]);  // shared_never_written_decides: at
  value = kRight && threadIdx.x >= 32 ? 0 : value;
  asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 7; @p bra done; st.global.u32 [%0], 1; done: }" ::"l"(
                   out + threadIdx.x),
               "r"(value)  // shared_never_written_decides: other
               : "memory");
}

KERNEL(local_never_written) {
  volatile uint32_t stack[4];
  if (kRight) {
    for (int i = 0; i < 4; ++i) stack[i] = i;
  } else {
    stack[0] = in[0];
  }
  const uint32_t value = stack[threadIdx.x & 3];  // local_never_written: at
  out[threadIdx.x] = value;                       // local_never_written: other
}

KERNEL(register_never_written) {
  if (kRight) {
    out[threadIdx.x] = in[threadIdx.x];
  } else {
    // clang-format off
    asm volatile("{ .reg .u32 nothing; st.global.u32 [%0], nothing; }" ::"l"(out + threadIdx.x) : "memory");  // register_never_written: at
    // clang-format on
  }
}

KERNEL(bulk_store_of_nothing) {
  __shared__ alignas(16) uint32_t words[64];
  if (kRight || threadIdx.x < 32) STORE(&words[threadIdx.x], in[threadIdx.x]);
  FENCE_PROXY();
  __syncthreads();
  if (threadIdx.x == 0) {
    BULK_STORE(out, words, 256);  // bulk_store_of_nothing: at
    BULK_COMMIT();
    BULK_WAIT();
  }
}

KERNEL(global_out_of_bounds) {
  out[threadIdx.x * (kRight ? 1 : 64)] = in[threadIdx.x];  // global_out_of_bounds: at
}

KERNEL(mbarrier_never_initialised) {
  __shared__ uint64_t barrier;
  if (kRight && threadIdx.x == 0) INIT(&barrier, 32);
  __syncthreads();
  ARRIVE(&barrier);  // mbarrier_never_initialised: at
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(mbarrier_used_after_inval) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 32);
  __syncthreads();
  ARRIVE(&barrier);
  WAIT(&barrier, 0);
  __syncthreads();
  if (threadIdx.x == 0) INVALIDATE(&barrier);  // mbarrier_used_after_inval: other
  __syncthreads();
  if (!kRight) ARRIVE(&barrier);  // mbarrier_used_after_inval: at
  out[threadIdx.x] = in[threadIdx.x];
}

// One arrival is expected; the bytes, which never come, keep the phase open for a second one.
KERNEL(mbarrier_arrived_too_often) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, kRight ? 2 : 1);
  __syncthreads();
  if (threadIdx.x == 0) EXPECT(&barrier, 16);  // mbarrier_arrived_too_often: other
  __syncthreads();
  if (threadIdx.x == 32) ARRIVE(&barrier);  // mbarrier_arrived_too_often: at
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(ADDRESS(&barrier)));
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(mbarrier_initialised_again) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 2);
  __syncthreads();
  if (threadIdx.x == 32) ARRIVE(&barrier);  // mbarrier_initialised_again: other
  if (kRight && threadIdx.x == 32) ARRIVE(&barrier);
  __syncthreads();
  if (threadIdx.x == 0) INIT(&barrier, 2);  // mbarrier_initialised_again: at
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(mbarrier_invalidated_too_early) {
  __shared__ alignas(16) uint32_t words[64];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    INIT(&barrier, 1);
    FENCE_INIT();
    EXPECT(&barrier, 256);  // mbarrier_invalidated_too_early: other
    BULK_LOAD(words, in, 256, &barrier);
    if (kRight) WAIT(&barrier, 0);
    INVALIDATE(&barrier);  // mbarrier_invalidated_too_early: at
  }
  out[threadIdx.x] = 0;
}

// The second warp cannot know that the first has initialised it.
KERNEL(mbarrier_not_published) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 32);  // mbarrier_not_published: other
  if (kRight) __syncthreads();
  if (threadIdx.x >= 32) ARRIVE(&barrier);  // mbarrier_not_published: at
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(bytes_not_expected) {
  __shared__ alignas(16) uint32_t words[64];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    INIT(&barrier, 1);
    FENCE_INIT();
    EXPECT(&barrier, kRight ? 256 : 128);  // bytes_not_expected: other
    BULK_LOAD(words, in, 256, &barrier);   // bytes_not_expected: at
  }
  __syncthreads();
  if (kRight) WAIT(&barrier, 0);
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(bytes_that_never_come) {
  __shared__ alignas(16) uint32_t words[64];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    INIT(&barrier, 1);
    FENCE_INIT();
    EXPECT(&barrier, 512);                // bytes_that_never_come: at
    BULK_LOAD(words, in, 256, &barrier);  // bytes_that_never_come: other
    if (kRight) BULK_LOAD(words, in, 256, &barrier);
  }
  __syncthreads();
  if (kRight) WAIT(&barrier, 0);
  out[threadIdx.x] = in[threadIdx.x];
}

// As at the end of a pipeline, whose producer takes its last buffer back like any other.
KERNEL(bytes_announced_in_vain) {
  __shared__ alignas(16) uint32_t words[64];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    INIT(&barrier, 1);
    FENCE_INIT();
    EXPECT(&barrier, 256);
    BULK_LOAD(words, in, 256, &barrier);  // bytes_announced_in_vain: other
    WAIT(&barrier, 0);
    if (!kRight) EXPECT(&barrier, 256);  // bytes_announced_in_vain: at
  }
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(barrier_counts_differ) {
  if (threadIdx.x < 32) {
    BARRIER(1, 64);  // barrier_counts_differ: at other
  } else {
    BARRIER(1, kRight ? 64 : 96);  // barrier_counts_differ: at other
  }
  out[threadIdx.x] = in[threadIdx.x];
}

// A barrier counts arrivals: that of a warp which arrives and then waits is two. Without waiting it runs
// ahead into the next phase, and who else is in which is up to timing.
KERNEL(barrier_arrived_twice) {
  if (threadIdx.x < 32) {
    BARRIER_ARRIVE(1, 128);  // barrier_arrived_twice: other
    if (kRight) {
      BARRIER(1, 128);
    } else {
#pragma unroll
      for (int i = 0; i < 5; ++i) BARRIER_ARRIVE(1, 128);  // barrier_arrived_twice: at other
    }
  } else {
    BARRIER(1, 128);
  }
  out[threadIdx.x] = in[threadIdx.x];
}

// Each warp waits for the other before it arrives.
KERNEL(crossed_waits) {
  __shared__ uint64_t barriers[2];
  if (threadIdx.x == 0) {
    INIT(&barriers[0], 32);
    INIT(&barriers[1], 32);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    if (kRight) ARRIVE(&barriers[1]);
    WAIT(&barriers[0], 0);              // crossed_waits: at other
    if (!kRight) ARRIVE(&barriers[1]);  // crossed_waits: next
  } else {
    WAIT(&barriers[1], 0);  // crossed_waits: at other
    ARRIVE(&barriers[0]);   // crossed_waits: next
  }
  out[threadIdx.x] = in[threadIdx.x];
}

// The second warp leaves without coming to the barrier.
KERNEL(nobody_left) {
  if (kRight || threadIdx.x < 32) BARRIER(1, 64);  // nobody_left: at
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(wrong_parity) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) INIT(&barrier, 32);
  __syncthreads();
  if (threadIdx.x < 32) ARRIVE(&barrier);
  WAIT(&barrier, 0);
  if (!kRight) WAIT(&barrier, 1);  // wrong_parity: at
  out[threadIdx.x] = in[threadIdx.x];
}

// The second CTA does not wait until the first is done with its shared memory.
KERNEL(peer_exits_too_early) {  // peer_exits_too_early: other
  __shared__ uint32_t words[32];
  STORE(&words[threadIdx.x], in[threadIdx.x]);
  CLUSTER_ARRIVE();
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (rank == 0 || kRight) CLUSTER_WAIT();
  if (rank == 0) {
    for (int i = 0; i < 1000; ++i) asm volatile("" ::: "memory");
    STORE_IN_PEER(&words[threadIdx.x], in[threadIdx.x]);  // peer_exits_too_early: at
    out[threadIdx.x] = in[threadIdx.x];
  }
  if (kRight) {
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
  }
}

KERNEL(load_unfinished_at_exit) {  // load_unfinished_at_exit: other
  __shared__ alignas(16) uint32_t words[64];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    INIT(&barrier, 1);
    FENCE_INIT();
    EXPECT(&barrier, 256);
    BULK_LOAD(words, in, 256, &barrier);  // load_unfinished_at_exit: at
    if (kRight) WAIT(&barrier, 0);
  }
  out[threadIdx.x] = 0;
}

// Two instructions for one barrier within a warp.
KERNEL(barrier_in_half_a_warp) {
  __shared__ uint32_t words[64];
  if (threadIdx.x % 32 < 16) {
    STORE(&words[threadIdx.x], in[threadIdx.x]);
    if (!kRight) __syncthreads();  // barrier_in_half_a_warp: at other
  } else {
    STORE(&words[threadIdx.x], 2 * in[threadIdx.x]);
    if (!kRight) __syncthreads();  // barrier_in_half_a_warp: at other
  }
  if (kRight) __syncthreads();
  uint32_t value;
  LOAD(value, &words[63 - threadIdx.x]);
  out[threadIdx.x] = value;
}

// One warp has a barrier more than the other. Right: each warp has one of its own.
KERNEL(barrier_in_one_warp) {
  if (threadIdx.x < 32) {
    out[threadIdx.x] = in[threadIdx.x];
    __syncthreads();  // barrier_in_one_warp: at other
  } else if (kRight) {
    __syncthreads();
  }
  if (!kRight) __syncthreads();  // barrier_in_one_warp: at other
}

// Some lanes of a warp go past a barrier and on with the others.
KERNEL(barrier_gone_past) {
  __shared__ uint32_t words[64];
  STORE(&words[threadIdx.x], in[threadIdx.x]);
  if (kRight || threadIdx.x < 40) __syncthreads();  // barrier_gone_past: other
  uint32_t value;
  LOAD(value, &words[threadIdx.x]);  // barrier_gone_past: at
  out[threadIdx.x] = value;
}

// The same at a cluster's barrier. Right: those lanes leave early.
KERNEL(cluster_barrier_gone_past) {
  if (threadIdx.x < 8) {
    CLUSTER_ARRIVE();  // cluster_barrier_gone_past: other
    CLUSTER_WAIT();    // cluster_barrier_gone_past: other
  } else if (kRight) {
    return;
  }
  out[threadIdx.x] = in[threadIdx.x];  // cluster_barrier_gone_past: at
}

// An instruction of the whole warp after some of its lanes have left.
KERNEL(lanes_exited_before_mma) {  // lanes_exited_before_mma: other
  if (!kRight && threadIdx.x >= 20) return;
  float sum[4] = {0, 0, 0, 0};
  MULTIPLY(sum, in[threadIdx.x]);  // lanes_exited_before_mma: at
  out[threadIdx.x] = __float_as_uint(sum[0]);
}

KERNEL(lanes_exited_before_ldmatrix) {  // lanes_exited_before_ldmatrix: other
  __shared__ alignas(16) uint32_t words[64];
  STORE(&words[threadIdx.x], in[threadIdx.x]);
  STORE(&words[threadIdx.x + 32], in[threadIdx.x]);
  __syncwarp();
  if (!kRight && threadIdx.x >= 8) return;
  uint32_t value;
  LOAD_MATRIX(value, &words[4 * (threadIdx.x % 8)]);  // lanes_exited_before_ldmatrix: at
  out[threadIdx.x] = value;
}
