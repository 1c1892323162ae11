// MLA decode attention for Hopper (sm_90a): one query token per request, 1 to 128 heads, one shared KV head.
//
//   S = scale · [q_latent q_rope] · KVᵀ     64 heads × 64 tokens, over 576 columns
//   O = softmax(S) · KV[:, :512]            64 heads × 512 columns
//
// A CTA owns 64 heads and walks its work items, each a range of one request's tokens, 64 tokens (a tile) at a
// time. Keys and values are the same bytes: a tile is loaded once and read twice.
//
// Three warpgroups, three roles:
//   loader           one thread; TMA brings Q and the tiles in
//   even attention   S and P of tiles 0, 2, 4, …; O columns 0–255 of every tile
//   odd attention    S and P of tiles 1, 3, 5, …; O columns 256–511 of every tile
// O (64 × 512 floats) fills half of the SM's registers, so no warpgroup can hold it alone, and there is no
// room for a second one to switch to while a softmax runs. So the two halve O by columns and take turns with
// the softmax: while one turns its S into P, the other's matrix products keep the tensor cores busy. Each P
// goes to the other through shared memory. Odd attention orders its S before it waits for even attention's P,
// and does its own softmax while that P is multiplied.
//
// The steady state, tiles 2 and 3; time runs down, an arrow is a barrier:
//
//   loader         even attention                        odd attention
//
//   K2 ──full──→   S2 = Q · K2ᵀ
//                  maximum 2, P2 ────────p_ready[0]──┐
//   K3 ──full──────────────────────────────────────┐ │
//                  O[:, :256] += P2 · V2           └─│─→ S3 = Q · K3ᵀ
//                  │ empty[0][0]                     └─→ O[:, 256:] += P2 · V2
//                  │                        ┌─p_ready[1]─ maximum 3, P3
//                  │                        │            │ empty[0][1]
//   K4 ←───────────┴────────────────────────│────────────┘
//                  O[:, :256] += P3 · V3 ←──┘            O[:, 256:] += P3 · V3
//                  │ empty[1][0]                         │ empty[1][1]
//   K5 ←───────────┴─────────────────────────────────────┘
//
// A head's registers: as wgmma lays an accumulator out, four neighbouring lanes of a warp have a row, each
// two columns of every eight. Both attentions have every head, each for its half of O's columns:
//
//   column (even)    0 1     2 3     4 5     6 7    │  8 9    …   254 255
//   column (odd)   256 257 258 259 260 261 262 263  │ 264 265 …   510 511
//   lane of head   4h      4h + 1  4h + 2  4h + 3   │ 4h      …   4h + 3      h = head % 8
//
// Warp w of a warpgroup has heads 16w to 16w + 15, a lane of it heads 16w + h and 16w + h + 8.
//
// A tile is 9 chunks of 64 columns; a chunk is 64 rows of 128 bytes (8 KiB) with the 128-byte swizzle, which
// both wgmma and TMA understand. Buffer 0 holds even tiles, buffer 1 odd ones. The rope chunk of a tile is
// needed for S only, so its 8 KiB take the tile's P afterwards.
//
// Softmax without rescaling every tile: each row has a reference r, at first its first tile's maximum. P =
// 2^(s − r). r moves, and O is rescaled, only when a tile's maximum is more than 8 above r; until then P
// stays below 2^8, which 16-bit floats hold as precisely as they hold 1. The result is exact for any r.
#include <cuda.h>

#include "../launch_sizes.cuh"
#include "../ptx/address.cuh"
#include "../ptx/arithmetic.cuh"
#include "../ptx/barrier.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/griddepcontrol.cuh"
#include "../ptx/setmaxnreg.cuh"
#include "../ptx/stmatrix.cuh"
#include "../ptx/tma.cuh"
#include "../ptx/wgmma.cuh"
#include "../ring.cuh"

using pipeline::Ring;

struct Work {
  int request;
  int begin;  // tokens; a multiple of 64
  int end;    // tokens; begin == end only for a request of length 0
  int slot;   // row of the partial buffers, or −1: the only split, writes the result itself
  __device__ bool exists() const { return request >= 0; }  // a part whose round has no work for it is done
};

// The kernel's one parameter. `Sm90Params` in sglab/kernels/mla lists the same fields in the same order.
struct Params {
  CUtensorMap q_latent;   // [batch, num_heads, 512], box [1, 64, 64], 128-byte swizzle, zeros out of bounds
  CUtensorMap q_rope;     // [batch, num_heads, 64], the same box
  CUtensorMap kv;         // [pages, page_size, 576], box [1, min(page_size, 64), 64], 128-byte swizzle
  const int* page_table;  // [batch, stride]: page numbers; entries past a request's last page are not read
  long long page_table_stride;  // this and all strides in elements
  int page_size;                // 16, 32, 64 or 128
  int page_log2;                // a division by page_size would take some 30 instructions
  const Work* works;            // [rounds, parts]: what each part does, round by round
  int rounds;
  void* out;                     // [batch, num_heads, 512] 16-bit
  long long out_stride_request;  // multiples of 4
  long long out_stride_head;
  float* lse;          // [batch, num_heads], in units of lse_unit · log2
  float* partial_out;  // [slots, num_heads, 512], normalised
  float* partial_lse;  // [slots, num_heads], base 2
  int num_heads;
  float scale_log2;  // softmax scale · log2(e)
  float lse_unit;    // 1: LSE in base 2; ln 2: natural
};

namespace {

constexpr int kHeads = 64;         // rows of a CTA's tile; fewer heads are padded
constexpr int kTile = 64;          // tokens
constexpr int kChunkColumns = 64;  // 128 bytes: the swizzle's width
constexpr int kLatentChunks = 8;   // 512 columns: keys and values
constexpr int kChunks = 9;         // + 64 rope columns: keys only
constexpr int kLatent = 512;
constexpr int kHalf = kLatent / 2;

constexpr uint32_t kRowBytes = 128;
constexpr uint32_t kAtomBytes = 1024;  // 8 rows: the swizzle's period
constexpr uint32_t kChunkBytes = kTile * kRowBytes;
constexpr uint32_t kTileBytes = kChunks * kChunkBytes;
constexpr int kHalfChunks = kLatentChunks / 2;

constexpr float kSlack = 8.0f;  // how far a maximum may exceed the reference, in powers of two

constexpr int kWarpgroup = 128;
constexpr int kThreads = 3 * kWarpgroup;

// Registers per thread. All start with the same number; attention gets what the loader gives up, and would
// wait forever for more than that.
constexpr int kEntryRegisters = 168;
constexpr int kAttentionRegisters = 232;
constexpr int kLoaderRegisters = 40;
static_assert(2 * (kAttentionRegisters - kEntryRegisters) <= kEntryRegisters - kLoaderRegisters);

// From a 1,024-byte boundary.
struct Shared {
  char q[kChunks][kChunkBytes];
  char kv[2][kChunks][kChunkBytes];  // two buffers, each a tile; P takes the place of a tile's rope chunk
  float scale[2][kHeads];            // 2^(old r − new r) of the buffer's tile
  float reference[kHeads];           // r
  float sum[2][2][kHeads];           // by turn and warpgroup

  uint64_t full[2][kChunks];  // the chunk of the buffer's tile is there
  // A half of the buffer is no longer read: columns 0–255, which only even attention multiplies with P, or
  // 256–511, which only odd does.
  uint64_t empty[2][2];
  uint64_t p_ready[2];  // P, scale and reference of the buffer's tile are there
  uint64_t q_full;      // Q of the work is there
  uint64_t q_empty;     // both attentions have made their last S from it

  __device__ char* p(int buffer) { return kv[buffer][kLatentChunks]; }
};
constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;  // with room to align it
static_assert(kSharedBytes <= 232448);

enum NamedBarrier { kEvenOnly = 1, kOddOnly = 2, kBothAttention = 3 };  // one or both attention warpgroups

// A warp's view of the two buffers' barriers. `parities` has a bit per buffer, flipped with every use: which
// phase comes next there; ring.cuh has the parity rule.
struct Buffers {
  Shared& shared;
  uint32_t parities = 0;

  __device__ uint32_t parity(int buffer) const { return parities >> buffer & 1; }
  __device__ void wait_full(int buffer, int chunk) const {
    ptx::mbarrier_wait(shared.full[buffer][chunk], parity(buffer));
  }
  __device__ void wait_empty(int buffer, int half) const {
    ptx::mbarrier_wait(shared.empty[buffer][half], parity(buffer) ^ 1);
  }
  __device__ void wait_p(int buffer) const { ptx::mbarrier_wait(shared.p_ready[buffer], parity(buffer)); }
  __device__ void advance(int buffer) { parities ^= 1u << buffer; }
};

__device__ int first_head() {
  return blockIdx.x * kHeads;
}

__device__ Work work_of(const Params& params, int round) {
  return round < params.rounds ? params.works[round * gridDim.y + blockIdx.y] : Work{-1};
}

__device__ int tiles_of(const Work& work) {
  return (work.end - work.begin + kTile - 1) / kTile;
}

// ---- the loader ----

struct Loader {
  const Params& params;
  Shared& shared;
  int page_log2 = params.page_log2, page_mask = params.page_size - 1;
  int box_rows = min(params.page_size, kTile);  // rows one copy brings
  int boxes = max(kTile >> page_log2, 1);       // copies of a tile's chunk
  // A second CTA reads the same tiles at about the same time, then none does; alone, a tile's lines may
  // stay.
  uint64_t l2_policy = gridDim.x > 1 ? ptx::kEvictFirst : ptx::kEvictNormal;

  __device__ void load_q(int request) const {
    ptx::mbarrier_arrive_expect_tx(shared.q_full, kTileBytes);
    for (int c = 0; c < kChunks; ++c) {
      const bool rope = c == kLatentChunks;
      ptx::tma_load_3d(shared.q[c], rope ? &params.q_rope : &params.q_latent, rope ? 0 : c * kChunkColumns,
                       first_head(), request, shared.q_full, ptx::kEvictFirst);
    }
  }

  // Chunks [first, last) of a tile, page by page.
  __device__ void load_chunks(int buffer, int first, int last, int token, const int (&pages)[4]) const {
    const int row = token & page_mask;
    // 32-bit addresses: computed from pointers, they cost several more instructions before every copy.
    const uint32_t barriers = ptx::smem_address(shared.full[buffer]);
    const uint32_t chunks = ptx::smem_address(shared.kv[buffer]);
    for (int c = first; c < last; ++c) {
      const ptx::Mbarrier barrier = static_cast<uint32_t>(barriers + c * sizeof(uint64_t));
      const uint32_t target = chunks + c * kChunkBytes;
      ptx::mbarrier_arrive_expect_tx(barrier, kChunkBytes);
      ptx::tma_load_3d(target, &params.kv, c * kChunkColumns, row, pages[0], barrier, l2_policy);
      if (boxes == 1) continue;  // a page holds the tile: one branch instead of three
#pragma unroll
      for (int i = 1; i < 4; ++i) {
        if (i < boxes) {
          ptx::tma_load_3d(target + i * box_rows * kRowBytes, &params.kv, c * kChunkColumns, row, pages[i],
                           barrier, l2_policy);
        }
      }
    }
  }

  // Past the request's end its last page is repeated: the row may end there, or hold anything.
  __device__ void read_pages(const Work& work, int token, int (&pages)[4]) const {
    const int* row = params.page_table + work.request * params.page_table_stride;
    const int last = (work.end - 1) >> page_log2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool needed = token < work.end && i < boxes;
      pages[i] = needed ? row[min((token + i * box_rows) >> page_log2, last)] : 0;
    }
  }

  __device__ void run() const {
    Buffers buffers{shared};
    Ring<1> q_buffer{&shared.q_full, &shared.q_empty};
    for (int round = 0;; ++round) {
      const Work work = work_of(params, round);
      if (!work.exists()) return;
      if (work.begin == work.end) continue;
      int pages[4], next_pages[4];
      read_pages(work, work.begin, pages);
      q_buffer.wait_empty();  // Q of the work before is no longer read
      q_buffer.advance();
      load_q(work.request);
      int buffer = 0;
      for (int token = work.begin; token < work.end; token += kTile, buffer ^= 1) {
        read_pages(work, token + kTile, next_pages);  // early: the latency hides behind the waits below
        // Buffer b belongs to attention b, which is done with its half first, and reads it first.
        buffers.wait_empty(buffer, buffer);
        load_chunks(buffer, 4 * buffer, 4 * buffer + 4, token, pages);
        buffers.wait_empty(buffer, buffer ^ 1);
        load_chunks(buffer, 4 * (buffer ^ 1), 4 * (buffer ^ 1) + 4, token, pages);
        // The rope chunk holds the old tile's P, which both halves' products have now read.
        load_chunks(buffer, kLatentChunks, kChunks, token, pages);
        buffers.advance(buffer);
#pragma unroll
        for (int i = 0; i < 4; ++i) pages[i] = next_pages[i];
      }
    }
  }
};

// ---- attention ----

// The operand of one wgmma: the matrix that begins 16 · step inner indices further, in its chunk `chunk`.
// K-major: 16 columns of 2 bytes per step. MN-major: 16 rows. A descriptor counts 16 bytes.
enum class Major { kK, kMN };
template <Major kMajor>
__device__ uint64_t along_k(uint64_t matrix, int step, int chunk = 0) {
  const uint32_t bytes = chunk * kChunkBytes + step * 16 * (kMajor == Major::kK ? 2 : kRowBytes);
  return matrix + (bytes >> 4);
}

// What a thread of the two attention warpgroups holds, and the steps they share. Self: 0 even, 1 odd.
// Fragments as wgmma lays them out: a thread has rows `row` and `row + 8` of its warpgroup's 64, and of every
// 8 columns two neighbours.
template <class Element, int Self>
struct Attention {
  static constexpr int kOther = 1 - Self;

  const Params& params;
  Shared& shared;
  const float scale_log2 = params.scale_log2;
  const int num_heads = params.num_heads;
  int lane, row, column;  // column: the first of its two
  Buffers buffers{shared};
  Ring<1> q_buffer{&shared.q_full, &shared.q_empty};
  uint32_t turn = 0;

  float o[128];    // O[row + 8·(i/2%2), 256·Self + 8·(i/4) + column + i%2], in units of 2^r
  float s[32];     // S of its own tile, same arrangement
  uint32_t p[16];  // P, two neighbours per register
  float sum[2];    // this thread's part of the rows' sums over its own tiles, in units of 2^r
  float scale[2];  // 2^(old r − new r) of the tile at hand

  __device__ Attention(const Params& params, Shared& shared) : params(params), shared(shared) {
    lane = threadIdx.x % 32;
    row = threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
    column = lane % 4 * 2;
  }

  __device__ void begin_work() {
#pragma unroll
    for (int i = 0; i < 128; ++i) o[i] = 0.0f;
    sum[0] = sum[1] = 0.0f;
  }

  // -- matrix products; none of them waits for the tensor cores

  // S = Q · Kᵀ, chunk by chunk, each as soon as TMA has brought it; its own half comes first.
  __device__ void multiply_qk() {
    const uint64_t q = ptx::smem_descriptor(ptx::smem_address(shared.q), 0, kAtomBytes);
    const uint64_t k = ptx::smem_descriptor(ptx::smem_address(shared.kv[Self]), 0, kAtomBytes);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int c = i < kLatentChunks ? i ^ (4 * Self) : i;
      buffers.wait_full(Self, c);
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        ptx::wgmma_64x64(Element{}, s, along_k<Major::kK>(q, step, c), along_k<Major::kK>(k, step, c),
                         i + step > 0);
      }
    }
    ptx::wgmma_commit();
  }

  // This warpgroup's columns of the buffer's tile, as V.
  __device__ uint64_t v_matrix(int buffer) const {
    const char* half = shared.kv[buffer][Self * kHalfChunks];
    return ptx::smem_descriptor(ptx::smem_address(half), kChunkBytes, kAtomBytes);
  }

  // O += P · V, P from this warpgroup's registers
  __device__ void multiply_own_pv() {
    const uint64_t v = v_matrix(Self);
    ptx::registers_change(o);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      ptx::wgmma_64x256(Element{}, o, p + 4 * step, along_k<Major::kMN>(v, step));
    }
    ptx::wgmma_commit();
  }

  // O += P · V, P from the other warpgroup through shared memory
  __device__ void multiply_other_pv() {
    const uint64_t v = v_matrix(kOther);
    const uint64_t p_matrix = ptx::smem_descriptor(ptx::smem_address(shared.p(kOther)), 0, kAtomBytes);
    ptx::registers_change(o);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      ptx::wgmma_64x256(Element{}, o, along_k<Major::kK>(p_matrix, step), along_k<Major::kMN>(v, step));
    }
    ptx::wgmma_commit();
  }

  // The matrix products ordered so far are in O.
  __device__ void finish_o() {
    ptx::wgmma_wait<0>();
    ptx::registers_change(o);
  }

  // -- softmax

  __device__ void mask(int tokens) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (i / 4 * 8 + column + i % 2 >= tokens) s[i] = -INFINITY;
    }
  }

  // S to P, with the reference moved where it must be. tokens: how many of the tile's 64 exist.
  __device__ void softmax(int tokens, bool first) {
    if (tokens < kTile) mask(tokens);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = -INFINITY;
#pragma unroll
      for (int i = 2 * h; i < 32; i += 4) top = fmaxf(top, fmaxf(s[i], s[i + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
      top *= scale_log2;

      float& shared_reference = shared.reference[row + 8 * h];
      const float old = first ? top : shared_reference;
      const float reference = top > old + kSlack ? top : old;
      scale[h] = first ? 1.0f : ptx::ex2(old - reference);
      __syncwarp();  // all four threads of the row have read the old reference
      if (lane % 4 == 0) {
        shared_reference = reference;
        shared.scale[Self][row + 8 * h] = scale[h];
      }

      float part = 0.0f;
#pragma unroll
      for (int i = 2 * h; i < 32; i += 4) {
        const float low = ptx::ex2(fmaf(s[i], scale_log2, -reference));
        const float high = ptx::ex2(fmaf(s[i + 1], scale_log2, -reference));
        part += low + high;
        p[i / 2] = ptx::pack(Element{}, low, high);
      }
      sum[h] = sum[h] * scale[h] + part;
    }
  }

  // P, scale and reference to the other warpgroup. S is complete, so the tile's rope chunk is free for P.
  __device__ void publish_p() {
    const int p_row = threadIdx.x % kWarpgroup / 32 * 16 + lane % 16;
    const uint32_t address = ptx::smem_address(shared.p(Self)) + p_row * kRowBytes;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const int unit = (2 * step + lane / 16) ^ (p_row % 8);  // of 16 bytes, swizzled
      ptx::stmatrix_16x16(address + unit * 16, p + 4 * step);
    }
    ptx::fence_proxy_async();  // the other warpgroup's wgmma reads P through the async proxy
    ptx::mbarrier_arrive(shared.p_ready[Self]);
  }

  // The other warpgroup's P, scale and reference are there, and its tile: it has waited for the chunks.
  __device__ void wait_for_other_p() {
    buffers.wait_p(kOther);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      scale[h] = shared.scale[kOther][row + 8 * h];
      sum[h] *= scale[h];
    }
  }

  // Most tiles leave every row's reference as it was.
  __device__ bool reference_moved() const {
    return __any_sync(0xffffffff, scale[0] != 1.0f || scale[1] != 1.0f);
  }

  // Brings O to the tile's reference.
  __device__ void rescale_o() {
#pragma unroll
    for (int i = 0; i < 128; ++i) o[i] *= scale[i / 2 % 2];
  }

  // Zeros where the tile's last tokens would be: P is 0 there, but 0 · NaN would not be.
  __device__ void clear_missing_values(int buffer, int tokens) {
    if (tokens >= kTile) return;
    char* half = shared.kv[buffer][Self * kHalfChunks];
    const int per_row = kRowBytes / 16;
    const int missing = (kTile - tokens) * per_row;
    for (int i = threadIdx.x % kWarpgroup; i < 4 * missing; i += kWarpgroup) {
      const int chunk = i / missing, unit = i % missing;
      *reinterpret_cast<int4*>(half + chunk * kChunkBytes + tokens * kRowBytes + unit * 16) = int4{};
    }
    ptx::fence_proxy_async();  // wgmma reads the zeros through the async proxy
    ptx::bar_sync(Self == 0 ? kEvenOnly : kOddOnly, kWarpgroup);  // all 128 threads' zeros are in place
  }

  // This warpgroup has read its half of the buffer for the last time: the loader may fill it.
  __device__ void release(int buffer) {
    if (lane == 0) ptx::mbarrier_arrive(shared.empty[buffer][Self]);
    buffers.advance(buffer);
  }

  // -- results

  __device__ void end_work(const Work& work, bool last) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 1);
      sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 2);
      if (lane % 4 == 0) shared.sum[turn][Self][row + 8 * h] = sum[h];
    }
    // Both warpgroups' sums, and the last tile's reference, are in shared memory. The sums alternate between
    // two places, so that the next work's cannot overtake a reader of these.
    ptx::bar_sync(kBothAttention, 2 * kWarpgroup);
    if (last) ptx::griddepcontrol_launch_dependents();  // the combine may settle where SMs are free
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row + 8 * h, head = first_head() + r;
      const float total = shared.sum[turn][0][r] + shared.sum[turn][1][r];
      const float inverse = work.end > work.begin ? 1.0f / total : 0.0f;
      if (Self == 0 && lane % 4 == 0 && head < num_heads) store_lse(work, head, r, total);
      store_o(work, head, h, inverse);
    }
    turn ^= 1;
  }

  __device__ void store_lse(const Work& work, int head, int r, float total) const {
    const float lse = work.end > work.begin ? shared.reference[r] + ptx::lg2(total) : -INFINITY;
    if (work.slot >= 0) {
      params.partial_lse[static_cast<long long>(work.slot) * num_heads + head] = lse;
    } else {
      params.lse[static_cast<long long>(work.request) * num_heads + head] = lse * params.lse_unit;
    }
  }

  __device__ void store_o(const Work& work, int head, int h, float inverse) const {
    if (work.slot >= 0) {
      if (head >= num_heads) return;
      float* target = params.partial_out + (static_cast<long long>(work.slot) * num_heads + head) * kLatent +
                      Self * kHalf + column;
#pragma unroll
      for (int j = 0; j < 32; ++j) {  // four threads fill one 32-byte sector
        const int i = 4 * j + 2 * h;
        *reinterpret_cast<float2*>(target + 8 * j) = float2{o[i] * inverse, o[i + 1] * inverse};
      }
      return;
    }
    // Two neighbouring threads swap, so that each has 4 columns in a row, and four of them a 32-byte sector.
    const bool odd = lane % 2;
    uint16_t* target = static_cast<uint16_t*>(params.out) + work.request * params.out_stride_request +
                       head * params.out_stride_head + Self * kHalf + lane % 4 / 2 * 4 + (odd ? 8 : 0);
#pragma unroll
    for (int j = 0; j < 32; j += 2) {
      const int i = 4 * j + 2 * h;
      const uint32_t left = ptx::pack(Element{}, o[i] * inverse, o[i + 1] * inverse);
      const uint32_t right = ptx::pack(Element{}, o[i + 4] * inverse, o[i + 5] * inverse);
      const uint32_t swapped = __shfl_xor_sync(0xffffffff, odd ? left : right, 1);
      const uint2 four = odd ? uint2{swapped, right} : uint2{left, swapped};
      if (head < num_heads) *reinterpret_cast<uint2*>(target + 8 * j) = four;
    }
  }
};

// Even attention over a work's tiles: S, softmax and P · V of every even tile, P · V of every odd one.
template <class Element>
__device__ void attend_tiles(Attention<Element, 0>& self, int tokens, int tiles) {
#pragma unroll 1
  for (int t = 0; t < tiles; ++t, tokens -= kTile) {
    if (t % 2 == 0) {
      self.multiply_qk();
      ptx::wgmma_wait<0>();
      ptx::registers_change(self.s);
      if (t + 2 >= tiles) self.q_buffer.release(self.lane == 0);
      self.softmax(tokens, t == 0);
      self.publish_p();
      if (self.reference_moved()) self.rescale_o();
      self.clear_missing_values(0, tokens);
      self.multiply_own_pv();
    } else {
      self.wait_for_other_p();
      if (self.reference_moved()) self.rescale_o();
      self.clear_missing_values(1, tokens);
      self.multiply_other_pv();
    }
    self.finish_o();
    self.release(t % 2);
  }
}

// Odd attention, two tiles at a time: S of its tile is under way while it waits for the even tile's P, and P
// · V of the even tile while it computes its softmax.
template <class Element>
__device__ void attend_tiles(Attention<Element, 1>& self, int tokens, int tiles) {
#pragma unroll 1
  for (int t = 0; t + 1 < tiles; t += 2, tokens -= 2 * kTile) {
    self.multiply_qk();
    self.wait_for_other_p();
    if (self.reference_moved()) {
      ptx::wgmma_wait<0>();  // S does not touch O, but ptxas would let wgmmas wait for each other
      self.rescale_o();
    }
    self.multiply_other_pv();
    ptx::wgmma_wait<1>();  // S is there
    ptx::registers_change(self.s);
    if (t + 3 >= tiles) self.q_buffer.release(self.lane == 0);
    self.softmax(tokens - kTile, false);
    self.publish_p();
    self.finish_o();
    self.release(0);
    if (self.reference_moved()) self.rescale_o();
    self.clear_missing_values(1, tokens - kTile);
    self.multiply_own_pv();
    self.finish_o();
    self.release(1);
  }
  if (tiles % 2 == 0) return;
  self.wait_for_other_p();  // of the last tile, which has no odd one after it
  if (self.reference_moved()) self.rescale_o();
  self.clear_missing_values(0, tokens);
  self.multiply_other_pv();
  self.finish_o();
  self.release(0);
}

// Even attention (Self 0) or odd attention (Self 1).
template <class Element, int Self>
__device__ void attend(const Params& params, Shared& shared) {
  Attention<Element, Self> self(params, shared);
  Work work = work_of(params, 0);
  for (int round = 1; work.exists(); ++round) {
    const Work next = work_of(params, round);  // early: the latency hides behind this work
    const int tiles = tiles_of(work);
    self.begin_work();
    if (tiles > 0) self.q_buffer.wait_full();
    if (Self >= tiles && tiles > 0) self.q_buffer.release(self.lane == 0);  // no tile is its own
    attend_tiles(self, work.end - work.begin, tiles);
    self.end_work(work, !next.exists());
    work = next;
  }
}

// ---- the kernel ----

__device__ void init_barriers(Shared& shared) {
  constexpr int kWarps = kWarpgroup / 32;
  for (int buffer = 0; buffer < 2; ++buffer) {
    for (int c = 0; c < kChunks; ++c) ptx::mbarrier_init(shared.full[buffer][c], 1);
    for (int half = 0; half < 2; ++half) ptx::mbarrier_init(shared.empty[buffer][half], kWarps);
    ptx::mbarrier_init(shared.p_ready[buffer], kWarpgroup);
  }
  ptx::mbarrier_init(shared.q_full, 1);
  ptx::mbarrier_init(shared.q_empty, 2 * kWarps);
  ptx::fence_mbarrier_init();  // TMA, too, must see them
}

template <class Element>
__device__ void mla_decode(const Params& params) {
  extern __shared__ char dynamic[];
  SGLAB_LAUNCH_SIZES(kThreads, kSharedBytes);
  const uint32_t aligned = (ptx::smem_address(dynamic) + kAtomBytes - 1) / kAtomBytes * kAtomBytes;
  Shared& shared = *static_cast<Shared*>(__cvta_shared_to_generic(aligned));
  if (threadIdx.x == 0) init_barriers(shared);
  if (threadIdx.x == 2 * kWarpgroup) {
    ptx::prefetch_tensor_map(&params.q_latent);
    ptx::prefetch_tensor_map(&params.q_rope);
    ptx::prefetch_tensor_map(&params.kv);
  }
  __syncthreads();  // the barriers exist

  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / kWarpgroup, 0);
  ptx::griddepcontrol_wait();  // below, memory is read that the kernel before may have written
  if (warpgroup == 0) {
    ptx::setmaxnreg_inc<kAttentionRegisters>();
    attend<Element, 0>(params, shared);
  } else if (warpgroup == 1) {
    ptx::setmaxnreg_inc<kAttentionRegisters>();
    attend<Element, 1>(params, shared);
  } else {
    ptx::setmaxnreg_dec<kLoaderRegisters>();
    if (threadIdx.x == 2 * kWarpgroup) Loader{params, shared}.run();
  }
}

}  // namespace

// grid (ceil(num_heads / 64), parts)
#define SGLAB_MLA_DECODE(NAME, ELEMENT)                                                                   \
  extern "C" __global__ void __launch_bounds__(kThreads, 1) NAME(const __grid_constant__ Params params) { \
    mla_decode<ELEMENT>(params);                                                                          \
  }
SGLAB_MLA_DECODE(mla_decode_sm90_f16, ptx::F16)
SGLAB_MLA_DECODE(mla_decode_sm90_bf16, ptx::Bf16)
