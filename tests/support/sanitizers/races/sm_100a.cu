// Kernels with one race each around tensor memory, and the same without it. The lines of the two parties are
// marked.
#include "ptx.cuh"

#define TENSOR_STORE(at, value) \
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(at), "r"(value) : "memory")
#define TENSOR_LOAD(value, at) \
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(value) : "r"(at) : "memory")
#define WAIT_STORE() asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory")
#define WAIT_LOAD() asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")
#define FENCE_BEFORE() asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory")
#define FENCE_AFTER() asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory")
#define COMMIT(barrier)                                                                                     \
  asm volatile(                                                                                             \
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(ADDRESS(barrier)) \
      : "memory")
// 128 x 8 x 16, f16 into f32.
#define MMA(d, a, b)                                                                                        \
  asm volatile(                                                                                             \
      "{ .reg .pred p; setp.ne.u32 p, 0, 1;\n tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" :: \
          "r"(d),                                                                                           \
      "l"(operand(a, 1)), "l"(operand(b, 1)), "r"(1u << 4 | (8u >> 3) << 17 | (128u >> 4) << 24)            \
      : "memory")

// 32 columns of tensor memory, from the start of a kernel to its end.
struct TensorMemory {
  __device__ __forceinline__ TensorMemory() {
    __shared__ uint32_t place;
    if (threadIdx.x < 32) {
      asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(ADDRESS(&place))
                   : "memory");
      asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
    }
    __syncthreads();
    base = place;
  }
  __device__ __forceinline__ ~TensorMemory() {
    WAIT_STORE();
    WAIT_LOAD();
    __syncthreads();
    if (threadIdx.x < 32)
      asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(base) : "memory");
  }
  // Where the warp may load and store.
  __device__ __forceinline__ uint32_t own() const { return base + (threadIdx.x / 32 % 4 << 21); }
  uint32_t base;
};

__device__ __forceinline__ void fill_operands(uint32_t* a, uint32_t* b, const uint32_t* in) {
  for (uint32_t i = threadIdx.x; i < 1024; i += blockDim.x) a[i] = 0x3c003c00;
  if (threadIdx.x < 64) b[threadIdx.x] = in[threadIdx.x];
}

KERNEL(tensor_store_without_wait) {
  const TensorMemory tensor;
  TENSOR_STORE(tensor.own(), in[threadIdx.x]);  // tensor_store_without_wait: other
  if (kRight) WAIT_STORE();
  uint32_t value;
  TENSOR_LOAD(value, tensor.own());  // tensor_store_without_wait: at
  WAIT_LOAD();
  out[threadIdx.x] = value;
}

// Eight warps: the last four overwrite what the first four have loaded.
KERNEL(tensor_load_without_wait) {
  const TensorMemory tensor;
  if (threadIdx.x < 128) {
    TENSOR_STORE(tensor.own(), in[threadIdx.x]);
    WAIT_STORE();
    uint32_t value;
    TENSOR_LOAD(value, tensor.own());  // tensor_load_without_wait: other
    if (kRight) WAIT_LOAD();
    out[threadIdx.x] = value;
  }
  FENCE_BEFORE();
  __syncthreads();
  FENCE_AFTER();
  if (threadIdx.x >= 128) TENSOR_STORE(tensor.own(), 0);  // tensor_load_without_wait: at
}

// The warp's own store in place: ordered by its registers alone, which the ISA does not count.
KERNEL(tensor_store_over_load) {
  const TensorMemory tensor;
  TENSOR_STORE(tensor.own(), in[threadIdx.x]);
  WAIT_STORE();
  uint32_t value;
  TENSOR_LOAD(value, tensor.own());  // tensor_store_over_load: other
  if (kRight) WAIT_LOAD();
  TENSOR_STORE(tensor.own(), value + 1);  // tensor_store_over_load: at
  WAIT_STORE();
  TENSOR_LOAD(value, tensor.own());
  WAIT_LOAD();
  out[threadIdx.x] = value;
}

// Four warps load, the first releases.
KERNEL(tensor_memory_released_over_load) {
  __shared__ uint32_t place;
  if (threadIdx.x < 32)
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(ADDRESS(&place))
                 : "memory");
  __syncthreads();
  const uint32_t own = place + (threadIdx.x / 32 % 4 << 21);
  TENSOR_STORE(own, in[threadIdx.x]);
  WAIT_STORE();
  uint32_t value;
  TENSOR_LOAD(value, own);  // tensor_memory_released_over_load: other
  if (kRight) WAIT_LOAD();
  out[threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(
                     place)  // tensor_memory_released_over_load: at
                 : "memory");
  }
}

KERNEL(tensor_fence_before_missing) {
  __shared__ uint64_t barrier;
  const TensorMemory tensor;
  if (threadIdx.x == 0) INIT(&barrier, 128);
  __syncthreads();
  if (threadIdx.x < 128) {
    TENSOR_STORE(tensor.own(), in[threadIdx.x]);  // tensor_fence_before_missing: other
    WAIT_STORE();
    if (kRight) FENCE_BEFORE();
    ARRIVE_RELAXED(&barrier);
  } else {
    WAIT_RELAXED(&barrier, 0);
    FENCE_AFTER();
    uint32_t value;
    TENSOR_LOAD(value, tensor.own());  // tensor_fence_before_missing: at
    WAIT_LOAD();
    out[threadIdx.x] = value;
  }
}

KERNEL(tensor_fence_after_missing) {
  __shared__ uint64_t barrier;
  const TensorMemory tensor;
  if (threadIdx.x == 0) INIT(&barrier, 128);
  __syncthreads();
  if (threadIdx.x < 128) {
    TENSOR_STORE(tensor.own(), in[threadIdx.x]);  // tensor_fence_after_missing: other
    WAIT_STORE();
    FENCE_BEFORE();
    ARRIVE_RELAXED(&barrier);
  } else {
    WAIT_RELAXED(&barrier, 0);
    if (kRight) FENCE_AFTER();
    uint32_t value;
    TENSOR_LOAD(value, tensor.own());  // tensor_fence_after_missing: at
    WAIT_LOAD();
    out[threadIdx.x] = value;
  }
}

KERNEL(mma_without_proxy_fence) {
  __shared__ alignas(128) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  const TensorMemory tensor;
  fill_operands(a, b, in);
  FENCE_PROXY();
  if (threadIdx.x == 0) {
    INIT(&barrier, 1);
    STORE(&b[0], 0x3c003c00);  // mma_without_proxy_fence: other
    if (kRight) FENCE_PROXY();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    MMA(tensor.base, a, b);  // mma_without_proxy_fence: at
    COMMIT(&barrier);
  }
  WAIT(&barrier, 0);
  FENCE_AFTER();
  uint32_t value;
  TENSOR_LOAD(value, tensor.own());
  WAIT_LOAD();
  out[threadIdx.x] = value;
}

KERNEL(commit_not_waited_for) {
  __shared__ alignas(128) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  const TensorMemory tensor;
  fill_operands(a, b, in);
  FENCE_PROXY();
  if (threadIdx.x == 0) INIT(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    MMA(tensor.base, a, b);  // commit_not_waited_for: other
    COMMIT(&barrier);
  }
  __syncthreads();
  if (kRight) WAIT(&barrier, 0);
  FENCE_AFTER();
  uint32_t value;
  TENSOR_LOAD(value, tensor.own());  // commit_not_waited_for: at
  WAIT_LOAD();
  out[threadIdx.x] = value;
  WAIT(&barrier, 0);
}

KERNEL(mma_operand_overwritten) {
  __shared__ alignas(128) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  const TensorMemory tensor;
  fill_operands(a, b, in);
  FENCE_PROXY();
  if (threadIdx.x == 0) INIT(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    MMA(tensor.base, a, b);  // mma_operand_overwritten: other
    COMMIT(&barrier);
    if (kRight) WAIT(&barrier, 0);
  }
  __syncthreads();
  if (threadIdx.x < 64) STORE(&b[threadIdx.x], 0);  // mma_operand_overwritten: at
  WAIT(&barrier, 0);
  FENCE_AFTER();
}

// Two threads issue to one accumulator: the second needs the first's fence to come after it in the pipeline.
KERNEL(pipeline_without_fences) {
  __shared__ alignas(128) uint32_t a[1024], b[64];
  __shared__ uint64_t barrier;
  const TensorMemory tensor;
  fill_operands(a, b, in);
  FENCE_PROXY();
  if (threadIdx.x == 0) INIT(&barrier, 2);
  __syncthreads();
  if (threadIdx.x == 0) {
    MMA(tensor.base, a, b);  // pipeline_without_fences: other
    COMMIT(&barrier);
    if (kRight) FENCE_BEFORE();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    if (kRight) FENCE_AFTER();
    MMA(tensor.base, a, b);  // pipeline_without_fences: at
    COMMIT(&barrier);
  }
  WAIT(&barrier, 0);
  FENCE_AFTER();
  uint32_t value;
  TENSOR_LOAD(value, tensor.own());
  WAIT_LOAD();
  out[threadIdx.x] = value;
}
