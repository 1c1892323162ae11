// Decode attention over a paged KV cache with plain CUDA cores: one query token per request, grouped heads.
//
// Threads of a CTA, 128 and more, as (x, y, z), after FlashInfer's batch decode:
//   x  16 lanes share a head's 128 dims, 8 each: one 16-byte load
//   y  one query head of the group that shares a KV head
//   z  what is left of 128 threads: rows of keys that are worked on side by side
// A CTA is one request and one KV head. Each row z walks through tiles of its own keys; keys and values
// travel through shared memory in kStages buffers, filled by cp.async while an earlier tile is computed. At
// the end the rows' states (m, d, o) are merged. Everything is in base 2: scores carry scale · log2(e).
#include <cuda_fp16.h>

#include <cstdint>

namespace {

constexpr int kDim = 128;
constexpr int kVector = 8;  // halves in 16 bytes
constexpr int kLanes = kDim / kVector;
constexpr int kStages = 2;

struct Arguments {
  const __half* q;           // (batch, query heads, 128)
  const __half *k, *v;       // (pages, page_size, kv heads, 128)
  const int* kv_indptr;      // (batch + 1): where a request's pages begin in kv_indices
  const int* kv_indices;     // page numbers
  const int* last_page_len;  // (batch): tokens on a request's last page, 1 to page_size
  __half* out;               // as q
  float* lse;                // (batch, query heads), base 2
  int page_size, kv_heads;
  float scale_log2;
};

// Scores seen so far: their maximum m, the sum d of 2^(s − m), and o = Σ 2^(s − m) · v of this lane's dims.
struct State {
  float m = -INFINITY, d = 0.0f, o[kVector]{};

  __device__ void rescale(float top) {
    const float factor = m == -INFINITY ? 0.0f : exp2f(m - top);  // −inf − (−inf) would be NaN
    d *= factor;
    for (float& x : o) x *= factor;
    m = top;
  }
  __device__ void add(float p, const float (&v)[kVector]) {
    d += p;
    for (int i = 0; i < kVector; ++i) o[i] += p * v[i];
  }
  __device__ void merge(float other_m, float other_d, const float (&other_o)[kVector]) {
    if (other_m == -INFINITY) return;  // saw no key
    const float top = fmaxf(m, other_m), factor = exp2f(other_m - top);
    rescale(top);
    d += other_d * factor;
    for (int i = 0; i < kVector; ++i) o[i] += other_o[i] * factor;
  }
};

__device__ void widen(const __half* source, float (&target)[kVector]) {
  const int4 bits = *reinterpret_cast<const int4*>(source);
  const __half2* pairs = reinterpret_cast<const __half2*>(&bits);
  for (int i = 0; i < kVector / 2; ++i) {
    const float2 pair = __half22float2(pairs[i]);
    target[2 * i] = pair.x, target[2 * i + 1] = pair.y;
  }
}

// 16 bytes to shared memory, asynchronously to this thread; zeros where there is no key.
__device__ void copy_async(__half* shared, const __half* global, bool exists) {
  const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = exists ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(global), "r"(bytes)
               : "memory");
}
__device__ void commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kNewest>
__device__ void wait_group() {  // all but the newest kNewest groups have arrived
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
}

template <int kGroup>
struct Block {
  static constexpr int kRows = 128 / (kLanes * kGroup);  // z
  static constexpr int kKeys = kGroup == 1 ? 4 : 1;      // that one thread row loads
  static constexpr int kTile = kKeys * kGroup;           // keys of a tile, per row z
  static constexpr int kTokens = kTile * kRows;          // keys of all rows' tiles
  static_assert(kRows >= 1 && kLanes * kGroup * kRows == 128);

  struct Shared {
    __half k[kStages][kRows][kTile][kDim], v[kStages][kRows][kTile][kDim];
    float m[kRows][kGroup], d[kRows][kGroup];
  };
};

template <int kGroup>
struct Decoder {
  using B = Block<kGroup>;
  const Arguments& a;
  typename B::Shared& shared;
  const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
  const int request = blockIdx.x, kv_head = blockIdx.y;
  const int first_page = a.kv_indptr[request];
  const int pages = a.kv_indptr[request + 1] - first_page;
  const int length = pages == 0 ? 0 : (pages - 1) * a.page_size + a.last_page_len[request];
  float q[kVector];
  State state;

  // Row z's keys of tile t begin here.
  __device__ int first_key(int tile) const { return tile * B::kTokens + z * B::kTile; }

  // Element offset of a key's dims that this lane loads.
  __device__ long long slot(int key) const {
    const int page = a.kv_indices[first_page + key / a.page_size];
    const long long token = static_cast<long long>(page) * a.page_size + key % a.page_size;
    return (token * a.kv_heads + kv_head) * kDim + x * kVector;
  }

  // K and V of a tile, a group each: the scores need not wait for V.
  __device__ void load(int tile) {
    const int stage = tile % kStages;
    for (const bool values : {false, true}) {
      for (int i = 0; i < B::kKeys; ++i) {
        const int row = y * B::kKeys + i, key = first_key(tile) + row;
        const bool exists = key < length;
        auto& target = values ? shared.v[stage][z][row] : shared.k[stage][z][row];
        copy_async(&target[x * kVector], (values ? a.v : a.k) + slot(exists ? key : 0), exists);
      }
      commit_group();
    }
  }

  // q · k for each key of the tile. Each lane has 8 of 128 products' terms; xor shuffles sum over the 16
  // lanes.
  __device__ void compute_qk(int tile, float (&s)[B::kTile]) {
    for (int j = 0; j < B::kTile; ++j) {
      float k[kVector], sum = 0.0f;
      widen(&shared.k[tile % kStages][z][j][x * kVector], k);
      for (int i = 0; i < kVector; ++i) sum += q[i] * k[i];
      for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
      s[j] = first_key(tile) + j < length ? sum : -INFINITY;
    }
  }

  __device__ void update(int tile, const float (&s)[B::kTile]) {
    float top = state.m;
    for (const float score : s) top = fmaxf(top, score);
    if (top == -INFINITY) return;  // no key yet
    state.rescale(top);
    for (int j = 0; j < B::kTile; ++j) {
      float v[kVector];
      widen(&shared.v[tile % kStages][z][j][x * kVector], v);
      state.add(exp2f(s[j] - top), v);
    }
  }

  // Row z = 0 merges all rows' states; the o of the others passes through the memory of K.
  __device__ void merge_rows() {
    __syncthreads();  // no thread reads K any more
    float* o = reinterpret_cast<float*>(shared.k);
    const int mine = (z * kGroup + y) * kDim + x * kVector;
    for (int i = 0; i < kVector; ++i) o[mine + i] = state.o[i];
    if (x == 0) shared.m[z][y] = state.m, shared.d[z][y] = state.d;
    __syncthreads();  // all states are written
    if (z != 0) return;
    for (int row = 1; row < B::kRows; ++row) {
      float other[kVector];
      for (int i = 0; i < kVector; ++i) other[i] = o[(row * kGroup + y) * kDim + x * kVector + i];
      state.merge(shared.m[row][y], shared.d[row][y], other);
    }
  }

  __device__ void store() const {
    if (z != 0) return;
    const int head = kv_head * kGroup + y, row = request * a.kv_heads * kGroup + head;
    const float inverse = state.d > 0.0f ? 1.0f / state.d : 0.0f;  // no key: 0
    __align__(16) __half halves[kVector];
    for (int i = 0; i < kVector; ++i) halves[i] = __float2half_rn(state.o[i] * inverse);
    const auto target = a.out + static_cast<long long>(row) * kDim + x * kVector;
    *reinterpret_cast<int4*>(target) = *reinterpret_cast<const int4*>(halves);
    if (x == 0) a.lse[row] = state.m + log2f(state.d);  // −inf without keys
  }

  __device__ void run() {
    const long long head = static_cast<long long>(request) * a.kv_heads * kGroup + kv_head * kGroup + y;
    widen(a.q + head * kDim + x * kVector, q);
    for (float& value : q) value *= a.scale_log2;
    const int tiles = (length + B::kTokens - 1) / B::kTokens;
    for (int tile = 0; tile < kStages && length > 0; ++tile) load(tile);
    for (int tile = 0; tile < tiles; ++tile) {
      float s[B::kTile];
      wait_group<2 * kStages - 1>();
      __syncthreads();  // K of the tile is there, of all threads
      compute_qk(tile, s);
      wait_group<2 * kStages - 2>();
      __syncthreads();  // V of the tile is there
      update(tile, s);
      __syncthreads();  // no thread reads this stage any more
      load(tile + kStages);
    }
    wait_group<0>();
    merge_rows();
    store();
  }
};

template <int kGroup>
__device__ void decode(const Arguments& a) {
  __shared__ __align__(16) typename Block<kGroup>::Shared shared;
  Decoder<kGroup>{a, shared}.run();
}

}  // namespace

#define PAGED_DECODE(GROUP)                                                                               \
  extern "C" __global__ void __launch_bounds__(128) paged_decode_f16_g##GROUP(                            \
      const __half* q, const __half* k, const __half* v, const int* kv_indptr, const int* kv_indices,     \
      const int* last_page_len, __half* out, float* lse, int page_size, int kv_heads, float scale_log2) { \
    decode<GROUP>(                                                                                        \
        {q, k, v, kv_indptr, kv_indices, last_page_len, out, lse, page_size, kv_heads, scale_log2});      \
  }
PAGED_DECODE(1)
PAGED_DECODE(4)
PAGED_DECODE(8)
