// MLA decode attention for Blackwell (sm_100a): one query token per request, 1 to 128 heads, one shared KV
// head.
//
//   S = scale · [q_latent q_rope] · KVᵀ     128 heads × 128 tokens, over 576 columns
//   O = softmax(S) · KV[:, :512]            128 heads × 512 columns
//
// A CTA pair works on one unit at a time: a range of one request's tokens, 128 tokens (a tile) after the
// other. Keys and values are the same bytes, but a pair multiplies them in two ways:
//
//   S = Q·Kᵀ  M 128 × N 128   each CTA brings its 64 heads of Q and 64 of the tile's 128 tokens
//   O = P·V   M 128 × N 256   (twice) each CTA brings its 64 heads of P and 128 of the 256 columns
//
// so a tile passes through shared memory twice, as K and as V; the second time it comes from L2. The tensor
// cores of both SMs then have the right operands side by side, and one thread of the even CTA, the leader,
// starts every product for both.
//
// Roles, by warp:
//   0–3  softmax     S from tensor memory, P to shared memory
//   4–7  epilogue    rescales O where a maximum has grown, at the end divides and stores it
//   8    mma         starts the matrix products (the leader's)
//   9    load        TMA: Q, K blocks, V blocks
//   10   page table  turns a tile's tokens into page numbers, some tiles ahead
//
// The steady state, tiles 2 and 3; time runs down, an arrow is a barrier:
//
//   page table            load           mma                    softmax                    epilogue
//
//   pages 2 ─page_full─→  K2 ──full──→   S2 = Q · K2ᵀ ─s_full─→ maximum 2 ─scale_full─→    scale 2
//                         V1 ──full──→   O += P1 · V1 ───────────────────────o_full───→    O ·= scale 2
//                                                               P2                         │
//                                                               │ p_full                   │ o_ready
//   pages 3 ─page_full─→  K3 ──full──→   S3 = Q · K3ᵀ ─s_full─→ │ maximum 3 ─scale_full─→  │ scale 3
//                         V2 ──full──→   O += P2 · V2 ←─────────┴──────────────────────────┘
//
// On the way back a product returns each block to load once it has read it (empty), and load the page numbers
// to the page table warp (page_empty). The order of products, S0 S1 O0 S2 O1 … Sn On−1 On, frees the other
// buffers: "S(i) is there" says to softmax that O(i − 2) is complete, so that P and the scales of tile i − 2
// have been read; "P(i) is there" says to mma that S(i) has been read. Each barrier's own line in Shared says
// what its completion means.
//
// A head's two lanes: a CTA has 64 heads and tensor memory 128 lanes, so lane h has the left half of a
// product's columns, lane h + 64 the right half; thread t of softmax and of epilogue has lane t, so t and t +
// 64 share a head.
//
//   column      0             64            128             256             384       512
//   lane h      │ S even,     │ S odd,      │ O columns     │ O columns     │ unused  │
//               │ tokens 0–63 │ tokens 0–63 │ 0–127         │ 256–383       │         │
//   lane h+64   │ S even,     │ S odd,      │ O columns     │ O columns     │ unused  │
//               │ 64–127      │ 64–127      │ 128–255       │ 384–511       │         │
//
// Softmax without rescaling every tile: each head has a reference r, at first its first tile's maximum. P =
// 2^(s − r). r moves, and O is rescaled, only when a tile's maximum is more than 8 above r; until then P
// stays below 2^8, which 16-bit floats hold as precisely as they hold 1. The result is exact for any r.
#include <cuda.h>

#include <cute/arch/mma_sm100_desc.hpp>
#include <cute/swizzle_layout.hpp>

#include "../launch_sizes.cuh"
#include "../ptx/address.cuh"
#include "../ptx/arithmetic.cuh"
#include "../ptx/barrier.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/griddepcontrol.cuh"
#include "../ptx/tcgen05.cuh"
#include "../ptx/tma.cuh"
#include "../ring.cuh"
#include "mma_ring.cuh"

using cute::UMMA::Major;
using pipeline::From;
using pipeline::MmaRing;
using pipeline::Ring;

// The kernel's one parameter. `Sm100Params` in sglab/kernels/mla lists the same fields in the same order.
struct Params {
  CUtensorMap q_latent;   // [batch, num_heads, 512], box [1, 64, 64], 128-byte swizzle, zeros out of bounds
  CUtensorMap q_rope;     // [batch, num_heads, 64], the same box
  CUtensorMap kv;         // [pages, page_size, 576], box [1, min(page_size, 64), 64], 128-byte swizzle
  const int* page_table;  // [batch, stride]: page numbers; entries past a request's last page are not read
  long long page_table_stride;  // this and all strides in elements
  int page_size;                // 16, 32, 64 or 128
  int page_log2;                // a division by page_size would take some 30 instructions
  const int* seq_lens;          // [batch]: tokens
  const int* num_splits;  // [batch]: into how many parts each request is cut at most; null: max_splits each
  int max_splits;
  int batch;
  void* out;                     // [batch, num_heads, 512] 16-bit
  long long out_stride_request;  // multiples of 8
  long long out_stride_head;
  float* lse;          // [batch, num_heads], in units of lse_unit · log2; may be null
  float* partial_out;  // [batch · max_splits, num_heads, 512], normalised; null where max_splits is 1
  float* partial_lse;  // [batch · max_splits, num_heads], base 2; likewise
  int* partial_count;  // [batch]: how many partial results a request has; 0: its result is in out already
  int num_heads;
  float scale_log2;  // softmax scale · log2(e)
  float lse_unit;    // 1: LSE in base 2; ln 2: natural
};

namespace {

constexpr int kPairHeads = 128;  // of a unit; fewer are padded with zeros
constexpr int kHeads = 64;       // of a CTA
constexpr int kTile = 128;       // tokens
constexpr int kHalfTile = 64;    // tokens of a K or V block
constexpr int kLatent = 512;
constexpr int kBlockColumns = 256;  // of O, per product
constexpr int kBlocks = kLatent / kBlockColumns;

// Everything the tensor cores read is in chunks: 64 rows of 128 bytes (64 columns) with the 128-byte
// swizzle.
constexpr int kChunkColumns = 64;
constexpr int kRowBytes = 128;
constexpr int kAtomBytes = 8 * kRowBytes;  // the swizzle's period
constexpr int kChunkBytes = 64 * kRowBytes;
constexpr int kLatentChunks = kLatent / kChunkColumns;
constexpr int kChunks = kLatentChunks + 1;  // the last one is rope, keys only
constexpr int kStep = 16;                   // of one tcgen05.mma along its inner dimension

constexpr int kStages = 7;     // K and V blocks: as many as fit
constexpr int kPageSlots = 4;  // tiles whose page numbers are known
constexpr int kMaxPages = 8;   // of a tile: 128 / 16

constexpr int kSColumn = 0;  // tensor memory
constexpr int kSColumns = kTile / 2;
constexpr int kOColumn = kSColumn + 2 * kSColumns;
constexpr int kOColumns = kBlockColumns / 2;
constexpr int kTensorColumns = 512;  // allocated: a power of two

constexpr float kSlack = 8.0f;  // how far a maximum may exceed the reference, in powers of two

enum Warp { kEpilogueWarp = 4, kMmaWarp = 8, kLoadWarp = 9, kPageTableWarp = 10, kWarps = 11 };
constexpr int kThreads = 32 * kWarps;
constexpr int kGroup = 128;  // threads of softmax, of epilogue
constexpr int kGroupWarps = kGroup / 32;
enum NamedBarrier { kSoftmaxOnly = 1 };

struct alignas(kAtomBytes) Shared {
  char q[kChunks][kChunkBytes];
  char stage[kStages][2][kChunkBytes];  // a block of K or V: 64 tokens × 128 columns; of rope: × 64
  char p[2][2][kChunkBytes];            // by tile parity: 64 heads × 2 · 64 tokens
  float top[2][kGroup];                 // by tile parity: maxima, for the thread of the same head
  float scale[2][kHeads];               // by tile parity: 2^(old r − new r)
  float sum[kGroup];                    // of P, in units of 2^r
  float reference[kHeads];              // r
  int page[kPageSlots][kMaxPages];

  // Barriers of the leader, at which both CTAs arrive; the other CTA's own are not used.
  uint64_t q_full;         // Q of the unit is in shared memory, of both CTAs
  uint64_t full[kStages];  // the block is in shared memory, of both CTAs
  uint64_t p_full[2];      // P of the tile is in shared memory, S of the tile has been read, in both CTAs
  uint64_t o_ready;        // O may be added to: rescaled for the tile, or at a unit's start stored, in both
  // Barriers of each CTA, at which a commit of the leader's mma arrives.
  uint64_t q_empty;         // no product reads Q any more: load may bring the next unit's
  uint64_t empty[kStages];  // no product reads the block any more: load may overwrite it
  uint64_t s_full[2];       // S of the tile is in tensor memory, and O of the tile before the last complete
  uint64_t o_full;          // O includes the tile
  // Barriers within each CTA.
  uint64_t page_full[kPageSlots];   // the tile's page numbers are there
  uint64_t page_empty[kPageSlots];  // … and have been used for K and V
  uint64_t v_tail;                  // a last tile's V rows have arrived: load may clear those past the end
  uint64_t scale_full[2];           // scale[] of the tile is there
  uint64_t sum_full, sum_empty;     // sum[] and reference[] of the unit are there; … have been read
  uint32_t tensor_memory;           // its first column's address
};
constexpr int kSharedBytes = sizeof(Shared) + kAtomBytes;  // with room to align it
static_assert(kSharedBytes <= 232448);

// ---- units of work ----

// Every role fetches the same units in the same order and so takes the same turns at every barrier; a unit
// without tiles touches none.
struct Unit {
  int request, split;
  int splits;      // of this request that have tokens; 1: this unit writes the result itself
  int begin, end;  // tokens
  __device__ bool exists() const { return split < splits; }
  __device__ int tiles() const { return (end - begin + kTile - 1) / kTile; }
};

struct Units {
  const Params& params;
  const int batch = params.batch, max_splits = params.max_splits;
  const int *const seq_lens = params.seq_lens, *const num_splits = params.num_splits;
  int taken = 0;
  int request = 0, before = 0;  // persistent: where the search is, and the units of earlier requests

  // The next unit of this CTA pair. Individual: the only one, if its split has tokens. Persistent: of the
  // units that exist, request by request, pair p takes numbers p, p + pairs, …
  __device__ bool take(Unit& unit) {
    const int turn = taken++;
    if (gridDim.y == batch && gridDim.z == max_splits) {
      unit = split_of(blockIdx.y, blockIdx.z);
      return turn == 0 && unit.exists();
    }
    const int number = blockIdx.y + turn * gridDim.y;
#pragma unroll 1
    for (; request < batch; ++request) {
      unit = split_of(request, number - before);
      if (unit.exists()) return true;
      before += unit.splits;
    }
    return false;
  }

 private:
  __device__ Unit split_of(int request, int split) const {
    const int length = seq_lens[request];
    const int tiles = (length + kTile - 1) / kTile;
    const int wanted = num_splits ? max(min(num_splits[request], max_splits), 1) : max_splits;
    const int share = max((tiles + wanted - 1) / wanted, 1);  // tiles per split, the last one's may be fewer
    const int splits = max((tiles + share - 1) / share, 1);
    return {request, split, splits, split * share * kTile, min((split + 1) * share * kTile, length)};
  }
};

// Byte offset of (row, byte) in a chunk.
__device__ int swizzled(int row, int byte) {
  using Rows = cute::Layout<cute::Shape<cute::_64, cute::_128>, cute::Stride<cute::_128, cute::_1>>;
  return cute::composition(cute::Swizzle<3, 4, 3>{}, Rows{})(row, byte);
}

// ---- page table ----

__device__ void page_table(const Params& params, Shared& shared) {
  const int lane = threadIdx.x % 32;
  const int per_tile = kTile >> params.page_log2;
  Ring<kPageSlots> pages{shared.page_full, shared.page_empty};
  Units units{params};
  for (Unit unit; units.take(unit);) {
    const int* row = params.page_table + unit.request * params.page_table_stride;
    const int last = (unit.end - 1) >> params.page_log2;
    for (int token = unit.begin; token < unit.end; token += kTile) {
      // Past the request's end its last page is repeated: the row may end here, or hold anything.
      const int page = lane < per_tile ? row[min((token >> params.page_log2) + lane, last)] : 0;
      pages.wait_empty();
      if (lane < per_tile) shared.page[pages.index][lane] = page;
      __syncwarp();  // all lanes' numbers are written
      pages.publish(lane == 0);
    }
  }
  ptx::griddepcontrol_launch_dependents();  // the combine may settle where SMs are free
}

// ---- load ----

struct Loader {
  const Params& params;
  Shared& shared;
  const uint32_t cta = ptx::cluster_ctarank();
  const int lane = threadIdx.x % 32;
  const int page_log2 = params.page_log2, page_mask = params.page_size - 1;
  const int box_rows = min(params.page_size, kHalfTile);  // tokens one copy brings
  Ring<kStages> stage{shared.full, shared.empty};
  Ring<1> q_buffer{&shared.q_full, &shared.q_empty};
  Ring<1> v_tail{&shared.v_tail};
  Ring<kPageSlots> k_pages{shared.page_full},
      v_pages{nullptr, shared.page_empty};  // K reads them first, V last

  // 64 tokens × 64 columns, page by page.
  __device__ void load_chunk(char* target, uint32_t barrier, const int* pages, int first_token, int column,
                             uint64_t l2_policy) {
#pragma unroll 1  // otherwise it divides to count its rounds
    for (int row = 0; row < kHalfTile; row += box_rows) {
      const int token = first_token + row;
      ptx::tma_load_3d_pair(target + row * kRowBytes, &params.kv, column, token & page_mask,
                            pages[token >> page_log2], barrier, l2_policy);
    }
  }

  __device__ void load_q(const Unit& unit) {
    q_buffer.wait_empty();
    q_buffer.advance();
    if (lane != 0) return;
    const uint32_t barrier = ptx::mapa(&shared.q_full, 0);
    ptx::mbarrier_arrive_expect_tx_cluster(barrier, kChunks * kChunkBytes);
    for (int c = 0; c < kChunks; ++c) {
      const bool rope = c == kLatentChunks;
      ptx::tma_load_3d_pair(shared.q[c], rope ? &params.q_rope : &params.q_latent,
                            rope ? 0 : c * kChunkColumns, cta * kHeads, unit.request, barrier,
                            ptx::kEvictFirst);
    }
  }

  // This CTA's 64 tokens of a tile, 128 columns at a time; rope last. Rows past the request's end are copied
  // as they are: the softmax masks their S.
  __device__ void load_k() {
    k_pages.wait_full();
    for (int c = 0; c < kChunks; c += 2, stage.advance()) {
      stage.wait_empty();
      if (lane != 0) continue;
      const int chunks = min(kChunks - c, 2);
      const uint32_t barrier = ptx::mapa(&shared.full[stage.index], 0);
      ptx::mbarrier_arrive_expect_tx_cluster(barrier, chunks * kChunkBytes);
      for (int i = 0; i < chunks; ++i) {
        load_chunk(shared.stage[stage.index][i], barrier, shared.page[k_pages.index], cta * kHalfTile,
                   (c + i) * kChunkColumns, ptx::kEvictNormal);  // V comes from L2, soon
      }
    }
    k_pages.advance();
  }

  // This CTA's columns of a tile, 64 tokens at a time. A half tile without tokens is left out.
  __device__ void load_v(int tokens) {
    for (int first = 0; first < min(tokens, kTile); first += kHalfTile) {
      const int missing = max(first + kHalfTile - tokens, 0);
      const Ring<kStages> start = stage;
      for (int block = 0; block < kBlocks; ++block, stage.advance()) {
        stage.wait_empty();
        if (lane == 0) load_v_block(first, block, missing > 0);
      }
      if (missing > 0) clear_v(start, kHalfTile - missing);
    }
    v_pages.release(lane == 0);  // lane 0 alone reads them
  }

  __device__ void load_v_block(int first_token, int block, bool is_tail) {
    const int column = block * kBlockColumns + cta * (kBlockColumns / 2);
    uint32_t barrier;
    if (is_tail) {
      barrier = ptx::smem_address(&shared.v_tail);
      if (block == 0) ptx::mbarrier_arrive_expect_tx(shared.v_tail, kBlocks * 2 * kChunkBytes);
    } else {
      barrier = ptx::mapa(&shared.full[stage.index], 0);
      ptx::mbarrier_arrive_expect_tx_cluster(barrier, 2 * kChunkBytes);
    }
    for (int i = 0; i < 2; ++i) {
      load_chunk(shared.stage[stage.index][i], barrier, shared.page[v_pages.index], first_token,
                 column + i * kChunkColumns, ptx::kEvictFirst);
    }
  }

  // Zeros in rows [tokens, 64) of the last two blocks: P is 0 there, but 0 · NaN would not be.
  __device__ void clear_v(Ring<kStages> at, int tokens) {
    v_tail.wait_full();
    v_tail.advance();
    constexpr int kUnits = kRowBytes / 16;
    for (int block = 0; block < kBlocks; ++block, at.advance()) {
      for (int i = lane; i < 2 * (kHalfTile - tokens) * kUnits; i += 32) {
        char* chunk = shared.stage[at.index][i % 2];
        const int row = tokens + i / 2 / kUnits, unit = i / 2 % kUnits;
        *reinterpret_cast<int4*>(chunk + row * kRowBytes + unit * 16) = int4{};
      }
      ptx::fence_proxy_async();  // the products read the zeros through the async proxy
      __syncwarp();              // all lanes' zeros are written
      if (lane == 0) ptx::mbarrier_arrive_cluster(ptx::mapa(&shared.full[at.index], 0));
    }
  }

  __device__ void run() {
    Units units{params};
    for (Unit unit; units.take(unit);) {
      const int tiles = unit.tiles(), tokens = unit.end - unit.begin;
      if (tiles == 0) continue;
      load_q(unit);
      for (int t = 0; t <= tiles; ++t) {  // K0 K1 V0 K2 V1 … as the products read them
        if (t < tiles) load_k();
        if (t > 0) load_v(tokens - (t - 1) * kTile);
      }
    }
  }
};

// ---- mma: one thread of the leader ----

template <class Element>
struct Multiplier {
  const Params& params;
  Shared& shared;
  uint32_t tensor_memory = shared.tensor_memory;
  MmaRing<kStages> stage{shared.full, shared.empty};
  MmaRing<1> q_buffer{&shared.q_full, &shared.q_empty};
  MmaRing<2> s_buffer{shared.s_full};
  MmaRing<2> p_buffer{shared.p_full};
  MmaRing<1> o_buffer{&shared.o_ready};

  // A matrix of 128-byte rows. K-major: a row per row of the matrix. MN-major: a row per inner index, and the
  // next 64 outer ones one chunk further.
  __device__ static uint64_t matrix(const char* address) {
    cute::UMMA::SmemDescriptor descriptor;
    descriptor.start_address_ = ptx::smem_address(address) >> 4;
    descriptor.leading_byte_offset_ = kChunkBytes >> 4;
    descriptor.stride_byte_offset_ = kAtomBytes >> 4;
    descriptor.version_ = 1;
    descriptor.layout_type_ = static_cast<uint8_t>(cute::UMMA::LayoutType::SWIZZLE_128B);
    return descriptor;
  }

  // The operand of one product: kStep inner indices from k on, of a chunk.
  template <Major kMajor>
  __device__ static uint64_t along_k(const char* chunk, int k) {
    return matrix(chunk + k * (kMajor == Major::K ? int(sizeof(Element)) : kRowBytes));
  }

  // S = Q · Kᵀ
  __device__ void multiply_qk() {
    const uint32_t instruction(
        cute::UMMA::make_instr_desc<Element, Element, float, kPairHeads, kTile, Major::K, Major::K>());
    for (int c = 0; c < kChunks; c += 2) {
      stage.wait_full();
      for (int i = 0; i < min(kChunks - c, 2); ++i) {
        for (int k = 0; k < kChunkColumns; k += kStep) {
          ptx::tcgen05_mma(tensor_memory + kSColumn + s_buffer.index * kSColumns,
                           along_k<Major::K>(shared.q[c + i], k),
                           along_k<Major::K>(shared.stage[stage.index][i], k), instruction, c + i + k > 0);
        }
      }
      stage.release();
    }
    ptx::tcgen05_commit(shared.s_full[s_buffer.index]);
    s_buffer.advance();
  }

  // O += P · V
  __device__ void multiply_pv(int tokens, bool first_tile) {
    const uint32_t instruction(cute::UMMA::make_instr_desc<Element, Element, float, kPairHeads, kBlockColumns,
                                                           Major::K, Major::MN>());
    p_buffer.wait_full();
    o_buffer.wait_full();
    ptx::tcgen05_fence_after_thread_sync();  // others have read S and O, and written O
    for (int half = 0; half < 2 && half * kHalfTile < tokens; ++half) {
      for (int block = 0; block < kBlocks; ++block) {
        stage.wait_full();
        for (int k = 0; k < kHalfTile; k += kStep) {
          ptx::tcgen05_mma(tensor_memory + kOColumn + block * kOColumns,
                           along_k<Major::K>(shared.p[p_buffer.index][half], k),
                           along_k<Major::MN>(shared.stage[stage.index][0], k), instruction,
                           !first_tile || half + k > 0);
        }
        stage.release();
      }
    }
    ptx::tcgen05_commit(shared.o_full);
    p_buffer.advance();
    o_buffer.advance();
  }

  __device__ void run() {
    Units units{params};
    for (Unit unit; units.take(unit);) {
      const int tiles = unit.tiles(), tokens = unit.end - unit.begin;
      if (tiles == 0) continue;
      q_buffer.wait_full();
      for (int t = 0; t <= tiles; ++t) {  // S0 S1 O0 S2 O1 …
        if (t < tiles) multiply_qk();
        if (t == tiles - 1) q_buffer.release();
        if (t > 0) multiply_pv(tokens - (t - 1) * kTile, t == 1);
      }
    }
  }
};

// ---- what softmax and epilogue have in common: a thread per lane of tensor memory ----

struct Lane {
  const int thread = threadIdx.x % kGroup;
  const int row = thread % kHeads;   // head, of this CTA's
  const int half = thread / kHeads;  // which half of the product's columns
  __device__ bool leads_warp() const { return threadIdx.x % 32 == 0; }
  // Tensor memory of the warp's 32 lanes.
  __device__ uint32_t columns(const Shared& shared, int column) const {
    return shared.tensor_memory + (thread / 32 * 32 << 16) + column;
  }
};

// ---- softmax ----

template <class Element>
__device__ uint32_t pack(float low, float high) {
  if constexpr (cute::is_same_v<Element, cute::half_t>) return ptx::pack(ptx::F16{}, low, high);
  return ptx::pack(ptx::Bf16{}, low, high);
}

template <class Element>
struct Softmax : Lane {
  const Params& params;
  Shared& shared;
  const float scale_log2 = params.scale_log2;
  Ring<2> s_buffer{shared.s_full};  // its index is the tile's parity
  Ring<1> sums{&shared.sum_full, &shared.sum_empty};
  float reference = 0.0f, sum = 0.0f;

  __device__ Softmax(const Params& params, Shared& shared) : params(params), shared(shared) {}

  // S of this thread's 64 tokens; those past the end are −inf.
  __device__ void load_s(float (&s)[kSColumns], int tokens) {
    s_buffer.wait_full();
    ptx::tcgen05_fence_after_thread_sync();
    const uint32_t column = columns(shared, kSColumn + s_buffer.index * kSColumns);
    ptx::tcgen05_ld_32(s, column);
    ptx::tcgen05_ld_32(s + 32, column + 32);
    ptx::tcgen05_wait_ld(s);
    if (tokens >= kTile) return;
#pragma unroll
    for (int i = 0; i < kSColumns; ++i) {
      if (half * kHalfTile + i >= tokens) s[i] = -INFINITY;
    }
  }

  // The maximum over all 128 tokens, half of which the thread 64 further has.
  __device__ float row_maximum(const float (&s)[kSColumns]) {
    float top = s[0];
#pragma unroll
    for (int i = 1; i < kSColumns; ++i) top = fmaxf(top, s[i]);
    shared.top[s_buffer.index][thread] = top;
    // Both threads' maxima are there. The next tile writes to the other place, so that no thread overtakes a
    // reader: two tiles later this barrier has been passed again.
    ptx::bar_sync(kSoftmaxOnly, kGroup);
    return fmaxf(top, shared.top[s_buffer.index][thread ^ kHeads]);
  }

  // Moves the reference if it must, and passes the factor to the epilogue.
  __device__ void update_reference(float top, bool first) {
    const float old = first ? top : reference;
    reference = top > old + kSlack ? top : old;
    const float scale = first ? 1.0f : ptx::ex2(old - reference);
    sum *= scale;
    if (half != 0) return;
    shared.scale[s_buffer.index][row] = scale;
    __syncwarp();  // all lanes' scales are written
    if (leads_warp()) ptx::mbarrier_arrive(shared.scale_full[s_buffer.index]);
  }

  // P of this thread's 64 tokens: one row of its half's chunk.
  __device__ void store_p(const float (&s)[kSColumns]) {
    char* chunk = shared.p[s_buffer.index][half];
#pragma unroll
    for (int i = 0; i < kSColumns; i += 8) {
      uint32_t packed[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float low = ptx::ex2(fmaf(s[i + 2 * j], scale_log2, -reference));
        const float high = ptx::ex2(fmaf(s[i + 2 * j + 1], scale_log2, -reference));
        sum += low + high;
        packed[j] = pack<Element>(low, high);
      }
      *reinterpret_cast<uint4*>(chunk + swizzled(row, 2 * i)) = {packed[0], packed[1], packed[2], packed[3]};
    }
    ptx::fence_proxy_async();                 // the products read P through the async proxy
    ptx::tcgen05_fence_before_thread_sync();  // S has been read
    __syncwarp();                             // both hold for all lanes
    if (leads_warp()) ptx::mbarrier_arrive_cluster(ptx::mapa(&shared.p_full[s_buffer.index], 0));
  }

  __device__ void publish_sum() {
    sums.wait_empty();
    shared.sum[thread] = sum;
    if (half == 0) shared.reference[row] = reference;
    __syncwarp();  // all lanes' sums are written
    sums.publish(leads_warp());
  }

  __device__ void run() {
    Units units{params};
    for (Unit unit; units.take(unit);) {
      sum = 0.0f;
      for (int token = unit.begin; token < unit.end; token += kTile, s_buffer.advance()) {
        float s[kSColumns];
        load_s(s, unit.end - token);
        update_reference(row_maximum(s) * scale_log2, token == unit.begin);
        store_p(s);
      }
      if (unit.tiles() > 0) publish_sum();
    }
  }
};

// ---- epilogue ----

template <class Element>
struct Epilogue : Lane {
  const Params& params;
  Shared& shared;
  const int head = ptx::cluster_ctarank() * kHeads + row;
  Ring<2> scales{shared.scale_full};
  Ring<1> sums{&shared.sum_full, &shared.sum_empty};
  Ring<1> o_buffer{&shared.o_full};

  __device__ Epilogue(const Params& params, Shared& shared) : params(params), shared(shared) {}

  __device__ void wait_for_o() {
    o_buffer.wait_full();
    o_buffer.advance();
    ptx::tcgen05_fence_after_thread_sync();
  }

  // Brings O to the tile's reference. Most tiles leave every head's reference as it was.
  __device__ void rescale(float scale) {
    if (!__any_sync(0xffffffff, scale != 1.0f)) return;
    for (int column = 0; column < kBlocks * kOColumns; column += 32) {
      float o[32];
      const uint32_t address = columns(shared, kOColumn + column);
      ptx::tcgen05_ld_32(o, address);
      ptx::tcgen05_wait_ld(o);
#pragma unroll
      for (int i = 0; i < 32; ++i) o[i] *= scale;
      ptx::tcgen05_st_32(address, o);
    }
    ptx::tcgen05_wait_st();
  }

  __device__ void let_products_add() {
    ptx::tcgen05_fence_before_thread_sync();  // O has been read or rescaled
    __syncwarp();                             // by all lanes
    if (leads_warp()) ptx::mbarrier_arrive_cluster(ptx::mapa(&shared.o_ready, 0));
  }

  // Before each tile's product: O as the unit before left it has been stored, or O has the tile's reference.
  __device__ void follow_tiles(const Unit& unit) {
    for (int token = unit.begin; token < unit.end; token += kTile, scales.advance()) {
      scales.wait_full();
      if (token > unit.begin) {
        wait_for_o();
        rescale(shared.scale[scales.index][row]);
      }
      let_products_add();
    }
  }

  // Divides by the sum of both halves' P and stores.
  __device__ void finish(const Unit& unit) {
    sums.wait_full();
    const float total = shared.sum[row] + shared.sum[row + kHeads];
    const float lse = shared.reference[row] + ptx::lg2(total);
    __syncwarp();  // all lanes have read
    sums.release(leads_warp());
    store_lse(unit, lse);
    wait_for_o();
    for (int column = 0; column < kBlocks * kOColumns; column += 32) {
      float o[32];
      ptx::tcgen05_ld_32(o, columns(shared, kOColumn + column));
      ptx::tcgen05_wait_ld(o);
#pragma unroll
      for (int i = 0; i < 32; ++i) o[i] /= total;
      store_o(unit, column, o);
    }
  }

  __device__ void store_lse(const Unit& unit, float lse) const {
    if (thread == 0 && unit.split == 0 && params.partial_count && ptx::cluster_ctarank() == 0) {
      params.partial_count[unit.request] = unit.splits > 1 ? unit.splits : 0;
    }
    if (half != 0 || head >= params.num_heads) return;
    if (unit.splits > 1) {
      params.partial_lse[slot(unit) * params.num_heads + head] = lse;
    } else if (params.lse) {
      params.lse[static_cast<long long>(unit.request) * params.num_heads + head] = lse * params.lse_unit;
    }
  }

  // Where the unit's partial result goes.
  __device__ long long slot(const Unit& unit) const {
    return static_cast<long long>(unit.request) * params.max_splits + unit.split;
  }

  // 32 columns of O, from this tensor memory column on: of its block's 256, this thread has one half.
  __device__ void store_o(const Unit& unit, int tensor_column, const float (&o)[32]) const {
    if (head >= params.num_heads) return;
    const int column =
        tensor_column / kOColumns * kBlockColumns + half * kOColumns + tensor_column % kOColumns;
    if (unit.splits > 1) {
      float* target = params.partial_out + (slot(unit) * params.num_heads + head) * kLatent + column;
#pragma unroll
      for (int i = 0; i < 32; i += 4) {
        *reinterpret_cast<float4*>(target + i) = {o[i], o[i + 1], o[i + 2], o[i + 3]};
      }
      return;
    }
    uint16_t* target = static_cast<uint16_t*>(params.out) + unit.request * params.out_stride_request +
                       head * params.out_stride_head + column;
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
      *reinterpret_cast<uint4*>(target + i) = {
          pack<Element>(o[i], o[i + 1]), pack<Element>(o[i + 2], o[i + 3]), pack<Element>(o[i + 4], o[i + 5]),
          pack<Element>(o[i + 6], o[i + 7])};
    }
  }

  // A request without tokens: O = 0, LSE = −inf.
  __device__ void store_nothing(const Unit& unit) const {
    const float zeros[32] = {};
    store_lse(unit, -INFINITY);
    for (int column = 0; column < kBlocks * kOColumns; column += 32) store_o(unit, column, zeros);
  }

  __device__ void run() {
    Units units{params};
    for (Unit unit; units.take(unit);) {
      if (unit.tiles() == 0) {
        store_nothing(unit);
      } else {
        follow_tiles(unit);
        finish(unit);
      }
    }
  }
};

// ---- the kernel ----

__device__ void init_barriers(Shared& shared) {
  constexpr int kPair = 2;
  ptx::mbarrier_init(shared.q_full, kPair);
  ptx::mbarrier_init(shared.q_empty, 1);
  for (int i = 0; i < kStages; ++i) {
    ptx::mbarrier_init(shared.full[i], kPair);
    ptx::mbarrier_init(shared.empty[i], 1);
  }
  for (int i = 0; i < 2; ++i) {
    ptx::mbarrier_init(shared.s_full[i], 1);
    ptx::mbarrier_init(shared.p_full[i], kPair * kGroupWarps);
    ptx::mbarrier_init(shared.scale_full[i], kHeads / 32);
  }
  ptx::mbarrier_init(shared.o_ready, kPair * kGroupWarps);
  ptx::mbarrier_init(shared.o_full, 1);
  for (int i = 0; i < kPageSlots; ++i) {
    ptx::mbarrier_init(shared.page_full[i], 1);
    ptx::mbarrier_init(shared.page_empty[i], 1);
  }
  ptx::mbarrier_init(shared.v_tail, 1);
  ptx::mbarrier_init(shared.sum_full, kGroupWarps);
  ptx::mbarrier_init(shared.sum_empty, kGroupWarps);
  ptx::fence_mbarrier_init();  // TMA, tensor cores and the other CTA, too, must see them
}

template <class Element>
__device__ void mla_decode(const Params& params) {
  extern __shared__ char dynamic[];
  SGLAB_LAUNCH_SIZES(kThreads, kSharedBytes);
  const uint32_t aligned = (ptx::smem_address(dynamic) + kAtomBytes - 1) / kAtomBytes * kAtomBytes;
  Shared& shared = *static_cast<Shared*>(__cvta_shared_to_generic(aligned));
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  if (warp == kMmaWarp) ptx::tcgen05_alloc(shared.tensor_memory, kTensorColumns);
  if (warp == kLoadWarp && lane == 0) {
    init_barriers(shared);
    ptx::prefetch_tensor_map(&params.q_latent);
    ptx::prefetch_tensor_map(&params.q_rope);
    ptx::prefetch_tensor_map(&params.kv);
  }
  __syncwarp();  // the barrier takes whole warps
  ptx::tcgen05_fence_before_thread_sync();
  ptx::cluster_sync();  // both CTAs' barriers exist, and their tensor memory
  ptx::tcgen05_fence_after_thread_sync();
  ptx::griddepcontrol_wait();  // below, memory is read that the kernel before may have written

  if (warp < kEpilogueWarp) {
    Softmax<Element>(params, shared).run();
  } else if (warp < kMmaWarp) {
    Epilogue<Element>(params, shared).run();
  } else if (warp == kMmaWarp) {
    if (lane == 0 && ptx::cluster_ctarank() == 0) Multiplier<Element>{params, shared}.run();
  } else if (warp == kLoadWarp) {
    Loader{params, shared}.run();
  } else {
    page_table(params, shared);
  }

  __syncwarp();
  ptx::tcgen05_fence_before_thread_sync();
  ptx::cluster_sync();  // neither CTA uses the other's memory or barriers any more, nor tensor memory
  ptx::tcgen05_fence_after_thread_sync();
  if (warp == kMmaWarp) ptx::tcgen05_dealloc(shared.tensor_memory, kTensorColumns);
}

}  // namespace

// cluster (2, 1, 1). Grid:
//   (2, batch, max_splits)   individual: a unit per CTA pair
//   (2, pairs, 1)            persistent: each pair takes every pairs-th unit of those that have tokens
#define SGLAB_MLA_DECODE(NAME, ELEMENT)                                               \
  extern "C" __global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(2, 1, 1) \
      NAME(const __grid_constant__ Params params) {                                   \
    mla_decode<ELEMENT>(params);                                                      \
  }
SGLAB_MLA_DECODE(mla_decode_sm100_f16, cute::half_t)
SGLAB_MLA_DECODE(mla_decode_sm100_bf16, cute::bfloat16_t)
