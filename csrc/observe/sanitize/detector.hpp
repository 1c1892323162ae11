#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "isa/effects.hpp"
#include "isa/types.hpp"
#include "machine/async/footprint.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/sync/mbarrier.hpp"
#include "observe/sanitize/finding.hpp"

// What instructions and operations mean, for detectors of mistakes. A Detector overrides the events
// that it wants, keeps what state it needs, and reports to Findings. `Sanitizer` (sanitizer.hpp) makes the
// events: it is the Observer (engine/observer.hpp) that knows what each instruction means.
//
// Order. A sanitised launch runs on one host thread, so events have one order, that of their effects. An
// instruction's events come after its effects, with the operands that it found; in between come those of
// asynchronous operations that were carried out because it waited. An attempt that blocks makes no events,
// but for `arrived`: a barrier counts its arrivals when they come.
//
// Who. Every event names an Actor. Actor::operation is 0 when the instruction itself acts; otherwise an
// asynchronous operation acts that this instruction had issued: the warp has gone on since, and its later
// instructions are not ordered before the event.
//
// Asynchronous operations are reported twice: `issued` in the order of the instructions, `performed` when
// their bytes move; an operation may do so any time between its issue and the wait that covers it, and the
// machine takes one such moment. Their signals come as `mbarrier` events whose Actor names the operation,
// right after `performed`. Groups (bulk, cp.async, wgmma) are reported as the instructions say: which
// operations a wait covers follows from `issued`, `committed` and `waited`, per lane (wgmma: per warp).
//
// State lasts for a launch: `launched` comes first and must forget everything. Clusters are known by
// Cluster::index, warps by Warp::slot in their cluster; the objects are used again for later clusters. In a
// session the events of a position come once, however often it goes back and forth; when its history is
// changed, all is reported again from `launched` on.
namespace sglab::emu {

enum class Proxy : std::uint8_t { kGeneric, kAsync };

struct Actor {
  const Warp* warp;
  const Inst* inst;
  std::uint32_t lanes;
  std::uint64_t position;       // instructions of the launch before it; of an operation, before its issue
  std::uint64_t operation = 0;  // number of an asynchronous operation in its cluster, from 1 on
};

inline std::uint32_t pc_of(const Actor& actor) {
  return static_cast<std::uint32_t>(actor.inst - actor.warp->code);
}

// Loads, stores, atomics, reductions, ldmatrix, stmatrix and similar; always in the generic proxy. Global:
// host addresses. Shared: rank << 24 | offset. Local: offsets in each lane's own memory.
struct Access {
  Space space;
  bool reads, writes, atomic;
  Order order;
  Scope scope;
  std::uint32_t lanes;
  std::uint32_t bytes;           // per lane
  const std::uint64_t* address;  // [32]
  bool together = false;         // one of the lanes makes it for all of the instruction's
  std::uint32_t following = 0;   // lanes whose bytes begin where those of the lane before them end

  // How many of `some` lanes, from the first of them on, lie side by side.
  std::uint32_t row(std::uint32_t some) const {
    const int lane = std::countr_zero(some);
    return 1u + static_cast<std::uint32_t>(
                    std::countr_one(std::uint64_t{following & some & some << 1} >> (lane + 1)));
  }
  // Of `some` lanes, those after the first `count`, which lie side by side.
  static std::uint32_t after(std::uint32_t some, std::uint32_t count) {
    return some & static_cast<std::uint32_t>(~std::uint64_t{0} << (std::countr_zero(some) + count));
  }
};

struct Fence {
  using Kind = FenceKind;
  Kind kind;
  Order order = Order::kAcqRel;
  Scope scope = Scope::kCta;
  Space space = Space::kGeneric;
  const std::uint64_t* address = nullptr;  // [32], of an acquiring kProxyTensormap: the map's
};

constexpr std::uint32_t kClusterBarrierNumber = 16;

struct BarrierUse {
  std::uint32_t number;          // 0 to 15 of the CTA, or kClusterBarrierNumber
  std::uint32_t threads;         // that must arrive; 0: all
  std::uint64_t phase;           // that the arrival belongs to, or that has ended
  Order order = Order::kAcqRel;  // barrier.cluster.arrive.relaxed: kRelaxed
};

// An operation on an mbarrier that was carried out, or refused (see is_misuse); the launch then fails.
struct MbarrierEvent : MbarrierUse {
  std::uint32_t address;  // rank << 24 | offset
  std::uint64_t phase;    // number of the phase that it belongs to, from 0 at the initialisation
  MbarrierStatus status;  // kPhaseComplete: it ended the phase
  Order order;            // kRelease, or kRelaxed
  Scope scope;
};

// A test or wait that returned true for Actor::lanes.
struct MbarrierWait {
  std::uint32_t address;
  std::int64_t phase;  // the last complete one; -1: none was complete yet (a producer's first wait)
  Order order;         // kAcquire, or kRelaxed
  Scope scope;
};

struct AsyncOp {
  enum class Kind : std::uint8_t {
    kBulk,      // cp.async.bulk and its tensor and reduction forms, st.async
    kCpAsync,   // cp.async
    kArrival,   // cp.async.mbarrier.arrive
    kMma,       // tcgen05.mma
    kTmemCopy,  // tcgen05.cp
    kTmemShift,
    kCommit,  // tcgen05.commit
    kWgmma,   // issued by four warps, one after the other
  };
  std::uint64_t id;
  Kind kind;
  Proxy proxy;
  std::uint32_t mbarrier;                   // signalled; kNoMbarrier: none
  std::uint32_t signalled = 0;              // CTAs signalled at that offset, by rank; 0: the one addressed
  bool grouped = false;                     // completes in the issuing lane's bulk group
  const TensorOperation* tensor = nullptr;  // kMma, kTmemCopy, kTmemShift: all of it, for the event's time
};

// tcgen05 instructions that act immediately. kStore's cells are written by the warp's next wait::st at the
// latest.
struct TmemUse {
  enum class Op : std::uint8_t { kAlloc, kDealloc, kRelinquish, kLoad, kStore };
  Op op;
  TmemRange range;  // kLoad, kStore: a rectangle around the cells; kAlloc, kDealloc: all lanes
};

class Detector {
 public:
  explicit Detector(Findings& findings) : findings(findings) {}
  virtual ~Detector() = default;

  virtual void launched(const Launch&) {}
  virtual void cluster_started(const Cluster&) {}
  virtual void cluster_finished(const Cluster&) {}  // nothing is in flight any more

  virtual void exited(const Actor&) {}  // the lanes
  virtual void accessed(const Actor&, const Access&) {}
  // Tensor maps in global memory that the instruction copies by: read through the tensor-map proxy.
  virtual void map_used(const Actor&, const Access&) {}
  virtual void fenced(const Actor&, const Fence&) {}
  // These lanes have met: bar.warp.sync, which orders their memory accesses, or (`memory` false) shfl.sync
  // and similar ones, which do not. `all`: with those that have come to another such instruction; nothing
  // else of the warp happens before these have executed theirs.
  virtual void warp_synced(const Actor&, std::uint32_t all, bool memory) { (void)all, (void)memory; }
  virtual void arrived(const Actor&, const BarrierUse&) {}
  virtual void passed(const Actor&, const BarrierUse&) {}
  virtual void mbarrier(const Actor&, const MbarrierEvent&) {}
  virtual void mbarrier_passed(const Actor&, const MbarrierWait&) {}
  virtual void issued(const Actor&, const AsyncOp&) {}
  virtual void performed(const Actor&, const AsyncOp&, const Footprint&) {}
  virtual void committed(const Actor&, GroupKind) {}
  // All but the `pending` latest groups are complete; `read_only`: have read their sources (.read).
  virtual void waited(const Actor&, GroupKind, std::uint32_t pending, bool read_only) {
    (void)pending, (void)read_only;
  }
  virtual void tensor_memory(const Actor&, const TmemUse&) {}
  // The launch failed: completes the finding that describes it (kind, message, other party).
  virtual void explain(const Fault&, Finding&) {}

 protected:
  Findings& findings;
};

Party party(const Actor& actor);

}  // namespace sglab::emu
