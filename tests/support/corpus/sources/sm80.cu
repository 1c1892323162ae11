// Kernels for sm_80 and later: cp.async, ldmatrix, mma.sync.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

__device__ uint32_t smem(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Two-stage cp.async copy with zero fill past n. Block 128, each thread 16 bytes per stage; tiles = gridDim.x
// * stages.
extern "C" __global__ void cp_async_copy(const float4* in, float4* out, int n, int tiles) {
  __shared__ __align__(16) float4 buffer[2][128];
  auto issue = [&](int tile) {
    if (tile < tiles) {
      int i = tile * 128 + threadIdx.x;
      int bytes = i < n ? 16 : 0;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                       smem(&buffer[(tile / gridDim.x) % 2][threadIdx.x])),
                   "l"(in + (i < n ? i : 0)), "r"(bytes));
    }
    asm volatile("cp.async.commit_group;");
  };
  issue(blockIdx.x);
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    issue(tile + gridDim.x);
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    float4 v = buffer[(tile / gridDim.x) % 2][threadIdx.x ^ 1];
    out[tile * 128 + threadIdx.x] = v;
    __syncthreads();
  }
  asm volatile("cp.async.wait_all;");
}

// D[M,N] (float) = A[M,K] (half, row-major) * B[N,K]^T (half, row-major). Block 32 threads: one 16x8 tile, K
// in steps of 16.
template <bool kBf16>
__device__ void mma_tile(const uint16_t* A, const uint16_t* B, float* D, int N, int K) {
  __shared__ __align__(16) uint16_t a_tile[16][16], b_tile[8][16];
  int lane = threadIdx.x, row0 = blockIdx.y * 16, col0 = blockIdx.x * 8;
  float d[4] = {0, 0, 0, 0};
  for (int k = 0; k < K; k += 16) {
    for (int i = lane; i < 256; i += 32) a_tile[i / 16][i % 16] = A[(row0 + i / 16) * K + k + i % 16];
    for (int i = lane; i < 128; i += 32) b_tile[i / 16][i % 16] = B[(col0 + i / 16) * K + k + i % 16];
    __syncwarp();
    uint32_t a[4], b[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(smem(&a_tile[lane % 16][(lane / 16) * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(b[0]), "=r"(b[1])
                 : "r"(smem(&b_tile[lane % 8][((lane / 8) % 2) * 8])));
    if constexpr (kBf16) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
          "{%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
          "{%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    __syncwarp();
  }
  int r = row0 + lane / 4, c = col0 + (lane % 4) * 2;
  D[r * N + c] = d[0];
  D[r * N + c + 1] = d[1];
  D[(r + 8) * N + c] = d[2];
  D[(r + 8) * N + c + 1] = d[3];
}
extern "C" __global__ void mma_gemm_f16(const uint16_t* A, const uint16_t* B, float* D, int N, int K) {
  mma_tile<false>(A, B, D, N, K);
}
extern "C" __global__ void mma_gemm_bf16(const uint16_t* A, const uint16_t* B, float* D, int N, int K) {
  mma_tile<true>(A, B, D, N, K);
}

// D[16,8] int32 += A[16,32] s8 * B[8,32]^T s8, one warp, fragments loaded directly.
extern "C" __global__ void mma_s8(const uint32_t* A, const uint32_t* B, int* D) {
  int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  uint32_t a0 = A[g * 8 + t], a1 = A[(g + 8) * 8 + t], a2 = A[g * 8 + t + 4], a3 = A[(g + 8) * 8 + t + 4];
  uint32_t b0 = B[g * 8 + t], b1 = B[g * 8 + t + 4];
  int d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  D[g * 8 + 2 * t] = d0;
  D[g * 8 + 2 * t + 1] = d1;
  D[(g + 8) * 8 + 2 * t] = d2;
  D[(g + 8) * 8 + 2 * t + 1] = d3;
}

// D[16,8] float = A[16,8] tf32 * B[8,8]^T (B[n][k]); one warp.
extern "C" __global__ void mma_tf32(const uint32_t* A, const uint32_t* B, float* D) {
  int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  uint32_t a0 = A[g * 8 + t], a1 = A[(g + 8) * 8 + t], a2 = A[g * 8 + t + 4], a3 = A[(g + 8) * 8 + t + 4];
  uint32_t b0 = B[g * 8 + t], b1 = B[g * 8 + t + 4];
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  D[g * 8 + 2 * t] = d0;
  D[g * 8 + 2 * t + 1] = d1;
  D[(g + 8) * 8 + 2 * t] = d2;
  D[(g + 8) * 8 + 2 * t + 1] = d3;
}

// Async barrier (mbarrier) between producer and consumer warps in one CTA. Block 64; out[i] = 2 * in[i],
// tiles of 32.
extern "C" __global__ void mbarrier_ping_pong(const int* in, int* out, int tiles) {
  __shared__ __align__(8) uint64_t full, empty;
  __shared__ int slot[32];
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(smem(&full)), "r"(32));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(smem(&empty)), "r"(32));
  }
  __syncthreads();
  auto wait = [](uint64_t* bar, int parity) {
    asm volatile(
        "{ .reg .pred p; again: mbarrier.test_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }" ::"r"(
            smem(bar)),
        "r"(parity)
        : "memory");
  };
  auto arrive = [](uint64_t* bar) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(smem(bar)) : "memory");
  };
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int t = 0; t < tiles; ++t) {
      wait(&empty, (t & 1) ^ 1);
      slot[lane] = in[t * 32 + lane];
      arrive(&full);
    }
  } else {
    for (int t = 0; t < tiles; ++t) {
      wait(&full, t & 1);
      out[t * 32 + lane] = 2 * slot[31 - lane];
      arrive(&empty);
    }
  }
}
