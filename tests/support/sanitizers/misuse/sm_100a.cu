// Kernels with one fault each around tensor memory, and the same without it. The lines of the two parties are
// marked.
#include "../races/ptx.cuh"

#define ALLOC(place)                                                                                     \
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(ADDRESS(place)) \
               : "memory")
#define DEALLOC(base) \
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(base) : "memory")
#define RELINQUISH(group) \
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::" #group ".sync.aligned;" ::: "memory")
#define TENSOR_STORE(at, value) \
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(at), "r"(value) : "memory")
#define TENSOR_LOAD(value, at) \
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(value) : "r"(at) : "memory")
#define WAIT_STORE() asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory")
#define WAIT_LOAD() asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")
#define COMMIT(barrier)                                                                                     \
  asm volatile(                                                                                             \
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(ADDRESS(barrier)) \
      : "memory")
// 128 x 8 x 16, f16 into f32; adds to D if `adds` says so.
#define MMA(d, a, b, adds) MMA_OF(d, a, b, adds, 0u)
// The same; `more` of the instruction descriptor: with kTransposedB N runs along contiguous bytes of B.
#define MMA_OF(d, a, b, adds, more)                                                                          \
  asm volatile(                                                                                              \
      "{ .reg .pred p; setp.ne.u32 p, %4, 0;\n tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" :: \
          "r"(d),                                                                                            \
      "l"(a), "l"(b), "r"(1u << 4 | (8u >> 3) << 17 | (128u >> 4) << 24 | (more)), "r"(adds)                 \
      : "memory")

constexpr uint32_t kTransposedB = 1u << 16;

// One warp's columns, allocated and released by that warp.
#define OWN_COLUMNS          \
  __shared__ uint32_t place; \
  ALLOC(&place);             \
  const uint32_t base = place

KERNEL(tmem_not_allocated) {
  uint32_t value, base = 0;
  __shared__ uint32_t place;
  if (kRight) {
    ALLOC(&place);
    base = place;
    TENSOR_STORE(base, in[threadIdx.x]);
    WAIT_STORE();
  }
  TENSOR_LOAD(value, base);  // tmem_not_allocated: at
  WAIT_LOAD();
  out[threadIdx.x] = value;
  if (kRight) DEALLOC(base);
}

KERNEL(tmem_used_after_dealloc) {
  OWN_COLUMNS;
  TENSOR_STORE(base, in[threadIdx.x]);
  WAIT_STORE();
  if (!kRight) DEALLOC(base);  // tmem_used_after_dealloc: other
  uint32_t value;
  TENSOR_LOAD(value, base);  // tmem_used_after_dealloc: at
  WAIT_LOAD();
  out[threadIdx.x] = value;
  if (kRight) DEALLOC(base);
}

KERNEL(tmem_not_released) {
  OWN_COLUMNS;  // tmem_not_released: at
  out[threadIdx.x] = base;
  if (kRight) DEALLOC(base);
}

// Warp 1 reaches lanes 32 to 63 only.
KERNEL(tmem_lanes_of_another_warp) {
  __shared__ uint32_t place;
  if (threadIdx.x < 32) ALLOC(&place);
  __syncthreads();
  const uint32_t base = place;
  if (threadIdx.x >= 32) {
    TENSOR_STORE(base + (kRight ? 32u << 16 : 0), in[threadIdx.x]);  // tmem_lanes_of_another_warp: at
    WAIT_STORE();
  }
  __syncthreads();
  if (threadIdx.x < 32) DEALLOC(base);
}

KERNEL(tmem_allocated_after_giving_up) {
  __shared__ uint32_t place;
  if (!kRight) RELINQUISH(1);  // tmem_allocated_after_giving_up: other
  ALLOC(&place);               // tmem_allocated_after_giving_up: at
  if (kRight) RELINQUISH(1);
  DEALLOC(place);
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(tmem_never_written) {
  OWN_COLUMNS;
  if (kRight) {
    TENSOR_STORE(base, in[threadIdx.x]);
    WAIT_STORE();
  }
  uint32_t value;
  TENSOR_LOAD(value, base);  // tmem_never_written: at
  WAIT_LOAD();
  out[threadIdx.x] = value;  // tmem_never_written: other
  DEALLOC(base);
}

KERNEL(tmem_store_not_waited_for) {  // tmem_store_not_waited_for: other
  OWN_COLUMNS;
  TENSOR_STORE(base, in[threadIdx.x]);  // tmem_store_not_waited_for: at
  if (kRight) WAIT_STORE();
  DEALLOC(base);
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(tmem_group_sizes_mixed) {
  OWN_COLUMNS;                 // tmem_group_sizes_mixed: other
  if (!kRight) RELINQUISH(2);  // tmem_group_sizes_mixed: at
  out[threadIdx.x] = in[threadIdx.x];
  DEALLOC(base);
}

__device__ __forceinline__ void fill(uint32_t* a, uint32_t* b, uint64_t* barrier, const uint32_t* in) {
  for (uint32_t i = threadIdx.x; i < 1024; i += blockDim.x) a[i] = 0x3c003c00;
  for (uint32_t i = threadIdx.x; i < 64; i += blockDim.x) b[i] = in[i];
  if (threadIdx.x == 0) {
    INIT(barrier, 1);
    FENCE_INIT();
  }
  FENCE_PROXY();
  __syncwarp();
}

KERNEL(mma_adds_to_nothing) {
  __shared__ alignas(1024) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  OWN_COLUMNS;
  fill(a, b, &barrier, in);
  if (threadIdx.x == 0) {
    MMA(base, operand(a, 1), operand(b, 1), kRight ? 0 : 1);  // mma_adds_to_nothing: at
    COMMIT(&barrier);
  }
  __syncwarp();
  WAIT(&barrier, 0);
  uint32_t value;
  TENSOR_LOAD(value, base);
  WAIT_LOAD();
  out[threadIdx.x] = value;  // mma_adds_to_nothing: other
  DEALLOC(base);
}

KERNEL(mma_descriptor_without_version) {
  __shared__ alignas(1024) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  OWN_COLUMNS;
  fill(a, b, &barrier, in);
  if (threadIdx.x == 0) {
    MMA(base, operand(a, 1), operand(b, kRight ? 1 : 0), 0);  // mma_descriptor_without_version: at
    COMMIT(&barrier);
  }
  __syncwarp();
  WAIT(&barrier, 0);
  DEALLOC(base);
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL(mma_in_flight_at_dealloc) {
  __shared__ alignas(1024) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  OWN_COLUMNS;
  fill(a, b, &barrier, in);
  if (threadIdx.x == 0) {
    MMA(base, operand(a, 1), operand(b, 1), 0);  // mma_in_flight_at_dealloc: other
    COMMIT(&barrier);
  }
  __syncwarp();
  if (kRight) WAIT(&barrier, 0);
  DEALLOC(base);  // mma_in_flight_at_dealloc: at
  out[threadIdx.x] = in[threadIdx.x];
}

// Rows 0 to 3 of B are written, so columns 0 to 3 of D are known, however often it is added to.
KERNEL(mma_column_of_nothing) {
  __shared__ alignas(1024) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  OWN_COLUMNS;
  for (uint32_t i = threadIdx.x; i < 1024; i += blockDim.x) a[i] = 0x3c003c00;
  for (uint32_t i = threadIdx.x; i < 64; i += blockDim.x) {
    if (i % 32 < 16) b[i] = in[i];
  }
  if (threadIdx.x == 0) INIT(&barrier, 1);
  FENCE_INIT();
  FENCE_PROXY();
  __syncwarp();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) MMA(base, operand(a, 1), operand(b, 1), i);  // mma_column_of_nothing: at
    COMMIT(&barrier);
  }
  __syncwarp();
  WAIT(&barrier, 0);
  uint32_t value;
  TENSOR_LOAD(value, base + (kRight ? 3 : 4));
  WAIT_LOAD();
  TENSOR_STORE(base, value);
  WAIT_STORE();
  TENSOR_LOAD(value, base);
  WAIT_LOAD();
  out[threadIdx.x] = value;  // mma_column_of_nothing: other
  DEALLOC(base);
}

// Lanes 0 to 31 of D need as many rows of A.
KERNEL(mma_row_of_nothing) {
  __shared__ alignas(1024) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  OWN_COLUMNS;
  for (uint32_t i = threadIdx.x; i < (kRight ? 256 : 248); i += blockDim.x) a[i] = 0x3c003c00;
  for (uint32_t i = threadIdx.x; i < 64; i += blockDim.x) b[i] = in[i];
  if (threadIdx.x == 0) INIT(&barrier, 1);
  FENCE_INIT();
  FENCE_PROXY();
  __syncwarp();
  if (threadIdx.x == 0) {
    MMA(base, operand(a, 1), operand(b, 1), 0);  // mma_row_of_nothing: at
    COMMIT(&barrier);
  }
  __syncwarp();
  WAIT(&barrier, 0);
  uint32_t value;
  TENSOR_LOAD(value, base);
  WAIT_LOAD();
  out[threadIdx.x] = value;  // mma_row_of_nothing: other
  DEALLOC(base);
}

// Column 0 of D is written before it is added to, the others are not.
KERNEL(mma_adds_to_column_of_nothing) {
  __shared__ alignas(1024) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  OWN_COLUMNS;
  fill(a, b, &barrier, in);
  TENSOR_STORE(base, 0);
  WAIT_STORE();
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    MMA(base, operand(a, 1), operand(b, 1), 1);  // mma_adds_to_column_of_nothing: at
    COMMIT(&barrier);
  }
  __syncwarp();
  WAIT(&barrier, 0);
  uint32_t value;
  TENSOR_LOAD(value, base + (kRight ? 0 : 1));
  WAIT_LOAD();
  out[threadIdx.x] = value;  // mma_adds_to_column_of_nothing: other
  DEALLOC(base);
}

// Four elements of each line of K are written, which are columns 0 to 3 of D.
KERNEL(mma_column_of_transposed_nothing) {
  __shared__ alignas(1024) uint32_t a[1024], b[128];
  __shared__ uint64_t barrier;
  OWN_COLUMNS;
  for (uint32_t i = threadIdx.x; i < 1024; i += blockDim.x) a[i] = 0x3c003c00;
  for (uint32_t i = threadIdx.x; i < 128; i += blockDim.x) {
    if (i % 4 < 2) b[i] = in[i];
  }
  if (threadIdx.x == 0) INIT(&barrier, 1);
  FENCE_INIT();
  FENCE_PROXY();
  __syncwarp();
  if (threadIdx.x == 0) {
    MMA_OF(base, operand(a, 1), operand(b, 1), 0, kTransposedB);  // mma_column_of_transposed_nothing: at
    COMMIT(&barrier);
  }
  __syncwarp();
  WAIT(&barrier, 0);
  uint32_t value;
  TENSOR_LOAD(value, base + (kRight ? 3 : 4));
  WAIT_LOAD();
  out[threadIdx.x] = value;  // mma_column_of_transposed_nothing: other
  DEALLOC(base);
}
