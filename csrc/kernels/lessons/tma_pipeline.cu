// The smallest kernel with a pipeline: one warp loads tiles with TMA, four warps sum their columns.
//
//   out[column] += Σ rows of x[row][column]        x (rows, 64) float32
//
// Tiles of 32 rows travel through kStages buffers. Each buffer has two mbarriers:
//   full   the load warp arrives once and announces the bytes; TMA's bytes complete the phase
//   empty  each of the four sum warps arrives once when it has read the tile
//
// The kernel also comes with one of four faults, to show what a fault does.
#include <cuda.h>

#include <cstdint>

#include "../ptx/barrier.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/tma.cuh"

namespace {

constexpr int kColumns = 64, kRows = 32, kTileBytes = kRows * kColumns * 4;
constexpr int kSumWarps = 4, kThreads = 32 * (1 + kSumWarps);

enum class Fault {
  kNone,
  kNoWait,        // the load warp does not wait for empty: it overwrites tiles that are being read
  kTooManyBytes,  // it announces more bytes than TMA brings: full never completes
  kOneArrival,    // only one of the four sum warps arrives: empty never completes
  kEarlyArrival,  // sum warps arrive before they read: the tile may be overwritten under their eyes
};

template <int kStages>
struct Shared {
  float tile[kStages][kRows][kColumns];
  uint64_t full[kStages], empty[kStages];
};

template <Fault kFault, int kStages>
__device__ void load(Shared<kStages>& shared, const CUtensorMap* x, int first, int tiles) {
  if (threadIdx.x % 32 != 0) return;
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const int stage = i % kStages, round = i / kStages;
    // In the first round no thread has to arrive: the phase before the first counts as over (ring.cuh: the
    // parity rule).
    if (kFault != Fault::kNoWait) ptx::mbarrier_wait(shared.empty[stage], (round & 1) ^ 1);
    ptx::mbarrier_arrive_expect_tx(shared.full[stage],
                                   kFault == Fault::kTooManyBytes ? kTileBytes + 16 : kTileBytes);
    ptx::tma_load_2d(shared.tile[stage], x, 0, (first + i) * kRows, shared.full[stage]);
  }
}

template <Fault kFault, int kStages>
__device__ float sum(Shared<kStages>& shared, int tiles) {
  const int thread = threadIdx.x - 32, column = thread % kColumns, half = thread / kColumns;
  float total = 0.0f;
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const int stage = i % kStages, round = i / kStages;
    ptx::mbarrier_wait(shared.full[stage], round & 1);
    const bool arrives = threadIdx.x % 32 == 0 && (kFault != Fault::kOneArrival || threadIdx.x == 32);
    if (kFault == Fault::kEarlyArrival && arrives) ptx::mbarrier_arrive(shared.empty[stage]);
    for (int row = half; row < kRows; row += 2) total += shared.tile[stage][row][column];
    __syncwarp();  // all lanes have read
    if (kFault != Fault::kEarlyArrival && arrives) ptx::mbarrier_arrive(shared.empty[stage]);
  }
  return total;
}

template <int kStages, Fault kFault = Fault::kNone>
__device__ void pipeline(const CUtensorMap* x, float* out, int tiles) {
  __shared__ __align__(128) Shared<kStages> shared;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(shared.full[stage], 1);
      ptx::mbarrier_init(shared.empty[stage], kSumWarps);
    }
    ptx::fence_mbarrier_init();  // TMA sees them
  }
  __syncthreads();  // all threads see them
  if (threadIdx.x < 32) {
    load<kFault>(shared, x, blockIdx.x * tiles, tiles);
  } else {
    atomicAdd(&out[(threadIdx.x - 32) % kColumns], sum<kFault>(shared, tiles));
  }
}

}  // namespace

// x: box of 32 rows × 64 columns; out (64), zeroed; tiles: of each CTA.
#define TMA_PIPELINE(NAME, ...)                                                           \
  extern "C" __global__ void __launch_bounds__(kThreads)                                  \
      tma_pipeline_##NAME(const __grid_constant__ CUtensorMap x, float* out, int tiles) { \
    pipeline<__VA_ARGS__>(&x, out, tiles);                                                \
  }
TMA_PIPELINE(1_stage, 1)
TMA_PIPELINE(2_stages, 2)
TMA_PIPELINE(4_stages, 4)
TMA_PIPELINE(no_wait, 2, Fault::kNoWait)
TMA_PIPELINE(too_many_bytes, 2, Fault::kTooManyBytes)
TMA_PIPELINE(one_arrival, 2, Fault::kOneArrival)
TMA_PIPELINE(early_arrival, 2, Fault::kEarlyArrival)
