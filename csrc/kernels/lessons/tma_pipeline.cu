// The smallest kernel with a pipeline: one warp loads tiles with TMA, four warps sum their columns.
//
//   out[column] += Σ rows of x[row][column]        x (rows, 64) float32
//
// Tiles of 32 rows travel through kStages buffers. Each buffer has two mbarriers:
//   full   the load warp arrives once and announces the bytes; TMA's bytes complete the phase
//   empty  each of the four sum warps arrives once when it has read the tile
//
// The kernel also comes with one of four faults, for whoever wants to see what a fault does.
#include <cuda.h>

#include <cstdint>

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

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ void mbarrier_init(uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals)
               : "memory");
}
__device__ void mbarrier_arrive(uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
__device__ void mbarrier_arrive_expect_tx(uint64_t& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}
// Returns when the phase of this parity is over.
__device__ void mbarrier_wait(uint64_t& barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "AGAIN:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;\n}" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}
__device__ void tma_load(void* tile, const CUtensorMap* x, uint64_t& barrier, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(shared_address(tile)),
      "l"(x), "r"(0), "r"(row), "r"(shared_address(&barrier))
      : "memory");
}

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
    // In the first round nobody has to arrive: the phase before the first counts as over.
    if (kFault != Fault::kNoWait) mbarrier_wait(shared.empty[stage], (round & 1) ^ 1);
    mbarrier_arrive_expect_tx(shared.full[stage],
                              kFault == Fault::kTooManyBytes ? kTileBytes + 16 : kTileBytes);
    tma_load(shared.tile[stage], x, shared.full[stage], (first + i) * kRows);
  }
}

template <Fault kFault, int kStages>
__device__ float sum(Shared<kStages>& shared, int tiles) {
  const int thread = threadIdx.x - 32, column = thread % kColumns, half = thread / kColumns;
  float total = 0.0f;
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const int stage = i % kStages, round = i / kStages;
    mbarrier_wait(shared.full[stage], round & 1);
    const bool arrives = threadIdx.x % 32 == 0 && (kFault != Fault::kOneArrival || threadIdx.x == 32);
    if (kFault == Fault::kEarlyArrival && arrives) mbarrier_arrive(shared.empty[stage]);
    for (int row = half; row < kRows; row += 2) total += shared.tile[stage][row][column];
    __syncwarp();  // all lanes have read
    if (kFault != Fault::kEarlyArrival && arrives) mbarrier_arrive(shared.empty[stage]);
  }
  return total;
}

template <int kStages, Fault kFault = Fault::kNone>
__device__ void pipeline(const CUtensorMap* x, float* out, int tiles) {
  __shared__ __align__(128) Shared<kStages> shared;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(shared.full[stage], 1);
      mbarrier_init(shared.empty[stage], kSumWarps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // TMA sees them
  }
  __syncthreads();  // everybody sees them
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
