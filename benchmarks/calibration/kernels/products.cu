// Kinds that multiply matrices: on CUDA cores, by mma.sync, convolutions.
#include <cuda_bf16.h>

#include <cstdint>

#define KERNEL(threads) __global__ void __launch_bounds__(threads)

namespace {

// d += a b of 16 × 8 × 16 bf16.
__device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, "
      "%2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void load_matrices(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}

// Rows of 32 bf16 in shared memory are 40 apart, so that eight of them lie in different banks.
constexpr int kPitch = 40;

// One step of 32 along k of a 64 × 64 tile by four warps, each of 32 × 32.
__device__ void multiply_tile(float (&sum)[2][4][4], const __nv_bfloat16* a, const __nv_bfloat16* b) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
#pragma unroll
  for (int k = 0; k < 32; k += 16) {
    uint32_t left[2][4], right[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      load_matrices(left[i], a + (row + 16 * i + lane % 16) * kPitch + k + lane / 16 * 8);
#pragma unroll
    for (int j = 0; j < 2; ++j)
      load_matrices(right[j], b + (column + 16 * j + lane % 16) * kPitch + k + lane / 16 * 8);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t pair[] = {right[j / 2][j % 2], right[j / 2][j % 2 + 2]};
        multiply(sum[i][j], left[i], pair);
      }
    }
  }
}

__device__ void store_tile(float* c, const float (&sum)[2][4][4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float* const at = c + (row + 16 * i + lane / 4) * 64 + column + 8 * j + lane % 4 * 2;
      *reinterpret_cast<float2*>(at) = make_float2(sum[i][j][0], sum[i][j][1]);
      *reinterpret_cast<float2*>(at + 8 * 64) = make_float2(sum[i][j][2], sum[i][j][3]);
    }
  }
}

}  // namespace

extern "C" {

// A tile of 16 × 16 per CTA, a thread per element; k = n; b is the same for all CTAs.
KERNEL(256) matmul_elements(float* c, const float* a, const float* b, int n) {
  __shared__ float left[16][16], right[16][16];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    left[y][x] = a[(blockIdx.x * 16 + y) * n + k + x];
    right[y][x] = b[(k + y) * 16 + x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum = fmaf(left[y][i], right[i][x], sum);
    __syncthreads();
  }
  c[(blockIdx.x * 16 + y) * 16 + x] = sum;
}

// A tile of 64 × 64 per CTA, 4 × 4 elements per thread, in registers.
KERNEL(256) matmul_registers(float* c, const float* a, const float* b, int n) {
  __shared__ float left[8][64], right[8][64];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  float sum[4][4]{};
  for (int k = 0; k < n; k += 8) {
#pragma unroll
    for (int i = threadIdx.x; i < 512; i += 256) {
      left[i / 64][i % 64] = a[(blockIdx.x * n + k + i / 64) * 64 + i % 64];
      right[i / 64][i % 64] = b[(k + i / 64) * 64 + i % 64];
    }
    __syncthreads();
#pragma unroll
    for (int step = 0; step < 8; ++step) {
      const float4 p = *reinterpret_cast<const float4*>(&left[step][4 * y]);
      const float4 q = *reinterpret_cast<const float4*>(&right[step][4 * x]);
      const float rows[] = {p.x, p.y, p.z, p.w}, columns[] = {q.x, q.y, q.z, q.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(rows[i], columns[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<float4*>(c + blockIdx.x * 4096 + (4 * y + i) * 64 + 4 * x) =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

// 64 × 64 per CTA by mma.sync; loads through registers, a barrier before and after.
KERNEL(128) mma_registers(float* c, const uint4* a, const uint4* b, int n) {
  __shared__ __align__(16) __nv_bfloat16 left[64 * kPitch], right[64 * kPitch];
  float sum[2][4][4]{};
  for (int k = 0; k < n; k += 32) {
    uint4 p[2], q[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = (i * 128 + threadIdx.x) / 4, part = threadIdx.x % 4;
      p[i] = a[((blockIdx.x * 64 + row) * n + k) / 8 + part];
      q[i] = b[(row * n + k) / 8 + part];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = (i * 128 + threadIdx.x) / 4, part = threadIdx.x % 4;
      *reinterpret_cast<uint4*>(left + row * kPitch + part * 8) = p[i];
      *reinterpret_cast<uint4*>(right + row * kPitch + part * 8) = q[i];
    }
    __syncthreads();
    multiply_tile(sum, left, right);
  }
  store_tile(c + blockIdx.x * 4096, sum);
}

// The same by cp.async into three buffers.
KERNEL(128) mma_stages(float* c, const uint4* a, const uint4* b, int n) {
  __shared__ __align__(16) __nv_bfloat16 left[3][64 * kPitch], right[3][64 * kPitch];
  float sum[2][4][4]{};
  const auto fetch = [&](int step) {
    if (step * 32 < n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = (i * 128 + threadIdx.x) / 4, part = threadIdx.x % 4;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         shared_address(&left[step % 3][row * kPitch + part * 8])),
                     "l"(a + ((blockIdx.x * 64 + row) * n + step * 32) / 8 + part));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         shared_address(&right[step % 3][row * kPitch + part * 8])),
                     "l"(b + (row * n + step * 32) / 8 + part));
      }
    }
    asm volatile("cp.async.commit_group;");
  };
  fetch(0), fetch(1);
  for (int step = 0; step * 32 < n; ++step) {
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    fetch(step + 2);
    multiply_tile(sum, left[step % 3], right[step % 3]);
  }
  store_tile(c + blockIdx.x * 4096, sum);
}

// 17 weights from constant parameters' memory over a line, 1024 points per CTA.
KERNEL(256) convolve_line(float* out, const float* in, const float* weight, int) {
  __shared__ float line[1040];
  for (int i = threadIdx.x; i < 1040; i += 256) line[i] = in[blockIdx.x * 1024 + i];
  __syncthreads();
  float sum[4]{};
#pragma unroll
  for (int j = 0; j < 17; ++j) {
    const float w = weight[j];
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[k] = fmaf(line[k * 256 + threadIdx.x + j], w, sum[k]);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) out[blockIdx.x * 1024 + k * 256 + threadIdx.x] = sum[k];
}

// 3 × 3 over eight channels, a plane of 34 columns and 10 rows per CTA and channel, from global memory.
KERNEL(256) convolve_plane(float* out, const float* in, const float* weight, int) {
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  float sum = 0;
#pragma unroll 1
  for (int channel = 0; channel < 8; ++channel) {
    const float* const plane = in + (blockIdx.x * 8 + channel) * 340;
#pragma unroll
    for (int i = 0; i < 9; ++i) sum = fmaf(plane[(y + i / 3) * 34 + x + i % 3], weight[channel * 9 + i], sum);
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

}  // extern "C"
