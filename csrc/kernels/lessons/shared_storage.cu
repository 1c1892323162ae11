// One CTA of a prefill with tensor cores, after FlashInfer's: 16 query rows, keys in tiles of 64, 128 dims.
//
//   out = softmax(scale · q kᵀ) v        no mask but the number of keys; lse in base 2
//
// Four warps share a tile's keys, 16 each, and merge their states (m, d, o) at the end. K and V arrive by
// cp.async, a group each: the scores need not wait for V. Rows of 256 bytes would put the same chunk of
// eight rows into the same banks, and ldmatrix reads just these; so a row's 16-byte chunks are permuted:
// chunk c of row r is at c ^ (r mod 8). The kernel also comes without the permutation, to see what it is
// for.
#include <cuda_fp16.h>

#include <cstdint>

namespace {

constexpr int kRows = 16, kKeys = 64, kDim = 128;  // a CTA's tile
constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kChunk = 8, kChunks = kDim / kChunk;  // halves in 16 bytes, and a row's chunks
constexpr int kMma = 16;                            // rows, keys and dims of one step of mma.m16n8k16

// Named after FlashInfer's. The states are exchanged where Q, K and V have been.
struct SharedStorageQKVO {
  union {
    struct {
      __half q_smem[kRows * kDim], k_smem[kKeys * kDim], v_smem[kKeys * kDim];
    };
    struct {
      float cta_sync_o_smem[kWarps * kRows * kDim];
      float2 cta_sync_md_smem[kWarps * kRows];
    };
  };
};

template <bool kPermuted>
__device__ int offset(int row, int chunk) {
  return (row * kChunks + (kPermuted ? chunk ^ (row % 8) : chunk)) * kChunk;
}

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ void commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kNewest>
__device__ void wait_group() {  // all but the newest kNewest groups have arrived
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
}
__device__ void load_matrices(uint32_t (&r)[4], const __half* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ void load_transposed(uint32_t (&r)[4], const __half* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ uint32_t halves(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
// 2^(m − top); 0 for what has seen no key, where −inf − (−inf) would be NaN.
__device__ float weight(float m, float top) {
  return m == -INFINITY ? 0.0f : exp2f(m - top);
}

struct Arguments {
  const __half *q, *k, *v;  // (16, 128), (keys, 128), (keys, 128)
  __half* out;              // (16, 128)
  float* lse;               // (16), base 2
  int keys;
  float scale_log2;
};

template <bool kPermuted>
struct Prefill {
  const Arguments& a;
  SharedStorageQKVO& shared;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // This lane's share of its warp's state: rows lane / 4 and lane / 4 + 8.
  float m[2] = {-INFINITY, -INFINITY}, d[2]{}, o[kDim / 8][4]{};

  // `rows` rows, a chunk per thread at a time; zeros from row `exist` on.
  __device__ void load(__half* target, const __half* source, int rows, int exist) {
    for (int i = threadIdx.x; i < rows * kChunks; i += kThreads) {
      const int row = i / kChunks, chunk = i % kChunks, bytes = row < exist ? 16 : 0;
      const __half* from = source + (row < exist ? row * kDim + chunk * kChunk : 0);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                       shared_address(target + offset<kPermuted>(row, chunk))),
                   "l"(from), "r"(bytes)
                   : "memory");
    }
  }
  __device__ void load_keys(int tile) {
    load(shared.k_smem, a.k + tile * kKeys * kDim, kKeys, a.keys - tile * kKeys);
    commit_group();
  }
  __device__ void load_values(int tile) {
    load(shared.v_smem, a.v + tile * kKeys * kDim, kKeys, a.keys - tile * kKeys);
    commit_group();
  }

  // This warp's 16 rows × 16 keys of scores.
  __device__ void compute_qk(float (&s)[2][4]) {
    for (int chunk = 0; chunk < kChunks; chunk += 2) {
      uint32_t q[4], k[4];
      load_matrices(q, shared.q_smem + offset<kPermuted>(lane % 16, chunk + lane / 16));
      const int key = warp * kMma + lane % 8 + lane / 16 * 8;
      load_matrices(k, shared.k_smem + offset<kPermuted>(key, chunk + lane / 8 % 2));
      mma(s[0], q, k[0], k[1]);
      mma(s[1], q, k[2], k[3]);
    }
  }

  // Scores become weights relative to the new maximum; what was summed is rescaled to it.
  __device__ void update_state(int tile, float (&s)[2][4]) {
    for (int half = 0; half < 2; ++half) {
      float top = m[half], sum = 0.0f;
      for (int j = 0; j < 2; ++j) {
        for (int i = 0; i < 2; ++i) {
          const int key = tile * kKeys + warp * kMma + j * 8 + lane % 4 * 2 + i;
          float& score = s[j][2 * half + i];
          score = key < a.keys ? score * a.scale_log2 : -INFINITY;
          top = fmaxf(top, score);
        }
      }
      for (int lanes = 1; lanes < 4; lanes *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, lanes));
      for (int j = 0; j < 2; ++j) {
        for (int i = 0; i < 2; ++i) sum += s[j][2 * half + i] = weight(s[j][2 * half + i], top);
      }
      for (int lanes = 1; lanes < 4; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
      const float factor = weight(m[half], top);
      m[half] = top, d[half] = d[half] * factor + sum;
      for (float (&each)[4] : o) each[2 * half] *= factor, each[2 * half + 1] *= factor;
    }
  }

  __device__ void compute_pv(const float (&p)[2][4]) {
    const uint32_t weights[4] = {halves(p[0][0], p[0][1]), halves(p[0][2], p[0][3]), halves(p[1][0], p[1][1]),
                                 halves(p[1][2], p[1][3])};
    for (int chunk = 0; chunk < kChunks; chunk += 2) {
      uint32_t v[4];
      load_transposed(v, shared.v_smem + offset<kPermuted>(warp * kMma + lane % 16, chunk + lane / 16));
      mma(o[chunk], weights, v[0], v[1]);
      mma(o[chunk + 1], weights, v[2], v[3]);
    }
  }

  __device__ void write_state() {
    for (int half = 0; half < 2; ++half) {
      const int row = warp * kRows + lane / 4 + 8 * half;
      for (int j = 0; j < kDim / 8; ++j) {
        float* to = shared.cta_sync_o_smem + row * kDim + j * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(to) = make_float2(o[j][2 * half], o[j][2 * half + 1]);
      }
      if (lane % 4 == 0) shared.cta_sync_md_smem[row] = make_float2(m[half], d[half]);
    }
  }

  // Eight threads a row, 16 dims each: o = Σ over the warps of 2^(m_w − top) · o_w, divided at last.
  __device__ void merge_and_store() {
    const int row = threadIdx.x / 8, first = threadIdx.x % 8 * 2;
    float weights[kWarps], top = -INFINITY, total = 0.0f;
    for (int w = 0; w < kWarps; ++w)
      top = fmaxf(top, weights[w] = shared.cta_sync_md_smem[w * kRows + row].x);
    for (int w = 0; w < kWarps; ++w) {
      weights[w] = weight(weights[w], top);
      total += weights[w] * shared.cta_sync_md_smem[w * kRows + row].y;
    }
    const float inverse = total > 0.0f ? 1.0f / total : 0.0f;  // no key: 0
    for (int dim = first; dim < kDim; dim += 16) {
      float sum[2]{};
      for (int w = 0; w < kWarps; ++w) {
        const float* from = shared.cta_sync_o_smem + (w * kRows + row) * kDim + dim;
        const float2 pair = *reinterpret_cast<const float2*>(from);
        sum[0] += pair.x * weights[w], sum[1] += pair.y * weights[w];
      }
      *reinterpret_cast<__half2*>(a.out + row * kDim + dim) =
          __floats2half2_rn(sum[0] * inverse, sum[1] * inverse);
    }
    if (first == 0) a.lse[row] = top + log2f(total);  // −inf without keys
  }

  __device__ void run() {
    const int tiles = (a.keys + kKeys - 1) / kKeys;
    load(shared.q_smem, a.q, kRows, kRows);  // in the group of the first K
    load_keys(0);
    load_values(0);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      float s[2][4]{};
      wait_group<1>();
      __syncthreads();  // K of the tile is there, of all threads
      compute_qk(s);
      __syncthreads();  // no thread reads K any more
      load_keys(tile + 1);
      update_state(tile, s);
      wait_group<1>();
      __syncthreads();  // V of the tile is there
      compute_pv(s);
      __syncthreads();  // no thread reads V any more
      load_values(tile + 1);
    }
    wait_group<0>();
    __syncthreads();  // the last copies, of zeros, have been written
    write_state();
    __syncthreads();
    merge_and_store();
  }
};

template <bool kPermuted>
__device__ void prefill(const Arguments& a) {
  __shared__ __align__(1024) SharedStorageQKVO shared;
  Prefill<kPermuted>{a, shared}.run();
}

}  // namespace

#define SHARED_STORAGE(NAME, PERMUTED)                                                                  \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                \
      shared_storage_##NAME(const __half* q, const __half* k, const __half* v, __half* out, float* lse, \
                            int keys, float scale_log2) {                                               \
    prefill<PERMUTED>({q, k, v, out, lse, keys, scale_log2});                                           \
  }
SHARED_STORAGE(permuted, true)
SHARED_STORAGE(linear, false)
