#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sglab::emu::timing {

constexpr std::uint32_t kRankShift = 24;           // of the CTA's rank in a shared::cluster address
constexpr std::uint8_t kNamed = 0, kMbarrier = 1;  // kinds of barriers

// Which unit an instruction keeps busy. Those up to kTensor exist once per sub-partition of an SM, the others
// once per SM.
enum class Unit : std::uint8_t { kNone, kFma, kAlu, kXu, kFp64, kTensor, kLsu, kAsync, kCount };
constexpr int kUnits = static_cast<int>(Unit::kCount);

// What happens besides occupying a unit.
enum class Action : std::uint8_t {
  kPlain,
  kMove,  // renames registers: no issue slot, and nothing waits for its sources
  kGlobal,
  kShared,
  kNamedWait,  // arrives and waits
  kArrive,     // on any barrier
  kPhaseWait,  // for an mbarrier's or the cluster's phase
  kBlock,      // nothing of the warp issues before it ends
  kCopy,
  kCpAsync,
  kCommit,  // of `group`
  kWait,    // until at most `argument` groups are open
  kCpAsyncArrive,
  kWgmma,
  kTcgen05,  // mma, cp, shift: by their tables
  kTcgen05Commit,
  kTmemLoad,
  kTmemStore,
  kTmemWait,  // argument: 0 for loads, 1 for stores
};

enum class Group : std::uint8_t { kCpAsync, kBulk, kWgmma, kCount };

// Why an instruction issued later than right after the one before.
enum class Stall : std::uint8_t {
  kNone,
  kIssue,       // the scheduler served another warp
  kUnit,        // the unit was busy
  kArithmetic,  // a register that an arithmetic instruction fills
  kShared,      // … a load from shared memory
  kGlobal,      // … a load from global memory
  kTensor,      // a matrix multiplication, tensor memory
  kBarrier,
  kMbarrier,
  kCopy,  // cp.async, bulk copies
  kFence,
  kFetch,  // its code was not in the instruction cache
};

// What keeps ptxas from moving an instruction within straight-line code.
enum Order : std::uint8_t {
  kReadsShared = 1,
  kWritesShared = 2,
  kReadsGlobal = 4,
  kWritesGlobal = 8,
  kBranch = 16,    // the code ends with it
  kFixed = 32,     // nothing moves across it
  kNoUnroll = 64,  // its loop is not to be unrolled
};

// An instruction of the kernel.
struct Cost {
  Action action = Action::kPlain;
  Unit unit = Unit::kNone;
  Group group = Group::kCpAsync;
  bool cached = false;     // a load that the L1 cache may serve
  bool streaming = false;  // evicted from the L2 cache first
  bool read_only = false;  // a bulk wait that waits for the reading only
  std::uint8_t order = 0;  // of Order
  std::int32_t argument = 0;
  float slots = 0, busy = 0, latency = 0;  // cycles
  float turn = 0;                          // of an atomic, from one change of a word to the next
};

struct Mention {
  std::uint32_t pc;
  std::uint16_t slot;
  bool definition;
};

// The columns of an event log, as sglab.events.columns describes them, and the launch around them.
struct Trace {
  struct {
    std::span<const std::uint32_t> cta, warp, first, length, times, shown;
  } runs;
  struct {
    std::span<const std::uint64_t> event, address;
    std::span<const std::uint32_t> span, bytes;
    std::span<const std::uint8_t> lanes, space, kind, sectors, lines, wavefronts;
  } accesses;
  struct {
    std::span<const std::uint64_t> event;
    std::span<const std::int64_t> passed;
    std::span<const std::uint32_t> object;
    std::span<const std::uint8_t> kind;
  } barriers;
  struct {
    std::span<const std::uint64_t> position, event;
    std::span<const std::int64_t> cta;
    std::span<const std::uint32_t> object;
    std::span<const std::uint8_t> kind, asynchronous;
  } phases;
  struct {
    std::span<const std::uint64_t> event;
    std::span<const std::int64_t> done, mbarrier;
    std::span<const std::uint32_t> bytes, multicast;
    std::span<const std::uint64_t> address;  // of the first row of a box, or of a plain copy; 0: none
    std::span<const std::uint32_t> rows, row_bytes;
    std::span<const std::uint64_t> pitch;
    std::span<const std::uint8_t> kind;
  } copies;
  struct {
    std::span<const std::uint64_t> event;
    std::span<const float> busy, latency;  // cycles of each SM that takes part
    std::span<const std::uint8_t> cta_group;
  } tcgen05;
  std::span<const std::uint32_t> cluster_of;  // by CTA
  std::span<const std::uint32_t> rank_of;
  std::span<const std::uint32_t> placement;  // SMs, or groups of them, of the first clusters
  std::vector<Cost> costs;                   // by pc
  std::vector<Mention> mentions;             // sorted by pc
  std::uint32_t slots = 0;                   // registers
  std::uint32_t warps_per_cta = 1, cluster_size = 1;
  std::uint32_t ctas_per_sm = 1;
  std::uint32_t shared_bytes = 0;  // of a CTA
  std::uint32_t registers = 255;   // of a thread
};

// Figures of a GPU: cycles, bytes per cycle.
struct Machine {
  std::uint32_t sms;
  bool warm;  // what the launch touches is in the L2 cache, as far as it fits
  double launch, launch_all, cold_start, translation, cta_start, cta_interval;
  double branch, predicate, code_capacity, code_rate;
  double l1_latency, l2_latency, hbm_latency, atomic_latency;
  double load_port, load_rate, l2_lines, store_rate, hbm_rate, l1_capacity, l2_capacity;
  double atomic_turn, atomic_sector, atomic_port, atomic_queue, atomic_rate, first_load, store_line;
  std::uint32_t l2_slices;
  double copy_latency, tensor_copy_latency, copy_port, copy_rate, same_copy_rate, copy_store_port,
      copy_store_latency;
  double cp_async_latency;
  double barrier_latency, barrier_arrive, mbarrier_latency, cluster_latency, remote_latency;
};

struct Times {
  std::vector<double> issue, end;   // by event, in cycles
  std::vector<std::uint8_t> stall;  // by event
  std::vector<float> stalled;       // by event, in cycles
  std::vector<double> copy_start, copy_end;
  std::vector<double> tcgen05_start, tcgen05_end;
  std::vector<double> phase;
  std::vector<double> cta_start, cta_end;
  std::vector<std::uint32_t> cta_sm;
  double total = 0;
  double bytes_l2 = 0, bytes_hbm = 0;
  std::uint64_t forced = 0;  // waits that the order of CTAs could not satisfy
};

Times simulate(const Trace& trace, const Machine& machine);

}  // namespace sglab::emu::timing
