#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "machine/engine/fault.hpp"
#include "machine/engine/tally.hpp"
#include "machine/engine/warp.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {

struct Launch;
class AsyncEngine;

struct NamedBarrier {
  std::uint32_t arrived = 0;   // lanes; a warp's last arrival counts the lanes it lacks as well
  std::uint32_t expected = 0;  // 0: all live lanes of the CTA
  std::uint32_t users = 0;     // warps that have ever arrived
  std::uint64_t phase = 0;
  std::uint32_t votes = 0, voters = 0;          // bar.red, this phase
  std::uint32_t result = 0, result_voters = 0;  // bar.red, last complete phase
  std::vector<std::uint32_t> lanes;             // per warp, arrived in this phase
};

struct Cta {
  Cluster* cluster = nullptr;
  std::uint32_t rank = 0;                     // in the cluster
  std::array<std::uint32_t, 3> index{};       // %ctaid
  std::array<std::uint32_t, 3> in_cluster{};  // %cluster_ctaid
  std::uint8_t* shared = nullptr;             // offset 0 of its window
  std::uint32_t window = 0;                   // rank << kSharedRankShift
  std::uint32_t first_warp = 0, warp_count = 0;
  std::uint32_t threads = 0;
  std::uint32_t live_lanes = 0;
  std::array<NamedBarrier, 16> barriers;
};

// SplitMix64: small, quick to seed.
struct Random {
  std::uint64_t state = 0;
  void seed(std::uint64_t value) { state = value; }
  std::uint64_t operator()() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
};

// Warp-instructions of a cluster after which no warp may still have to wait for what happens unprompted on a
// GPU.
constexpr std::uint64_t kReliefPeriod = 1u << 18;

struct ClusterBarrier {
  std::uint32_t arrived = 0;  // lanes
  std::uint64_t phase = 0;
};

// What a checkpoint of a cluster copies; the bytes that its pointers lead to are in Cluster.
struct ClusterState {
  Launch* launch = nullptr;
  const Program* program = nullptr;
  std::int64_t* profile = nullptr;  // see Tally
  std::uint64_t index = 0;
  std::array<std::uint32_t, 3> position{};  // %clusterid
  std::vector<Cta> ctas;
  std::vector<Warp> warps;
  std::vector<std::uint64_t> runnable;  // bits by Warp::slot
  std::uint32_t live_warps = 0;
  std::uint32_t live_lanes = 0;
  std::uint32_t shared_bytes = 0;  // of one CTA's window that may be used, reserved kilobyte included
  ClusterBarrier barrier;
  std::uint64_t executed = 0;  // warp-instructions
  std::uint64_t charged = 0;   // as many would have taken the time of long instructions; see charge()
  std::uint64_t events = 0;    // anything that may end a wait
  std::uint64_t started = 0;   // steady clock, for %globaltimer
  Random random;
  std::uint32_t next_warp = 0;  // round robin
  std::uint32_t victim = 0;     // of the adversarial scheduler
  std::uint64_t victim_until = 0;
  std::uint64_t relief_at = 0;    // warp-instructions executed by then: relieve() is due
  std::uint64_t idle_events = 0;  // `events` when no warp could run the last time
  std::uint32_t idle_rounds = 0;  // how often in a row without any event
};

// The unit of execution: the CTAs of one cluster, run by one host thread.
struct Cluster : ClusterState {
  AlignedBytes register_memory, shared_memory, local_memory;
  // Where debuggers follow writes: a bit for each byte of shared memory, the CTAs' windows one after the
  // other.
  AlignedBytes shared_written;
  std::vector<std::uint32_t> predicate_memory;
  // Set aside by a debugger that went back to before its first use; readers that hold it may still read it.
  std::shared_ptr<AsyncEngine> spare_async;
  std::shared_ptr<AsyncEngine> async;  // asynchronous operations, mbarriers, tensor memory; made on first use

  // The asynchronous engine is reset by the code that starts the cluster.
  void start(Launch& launch, std::uint64_t index, Tally& tally);
  // From now on mark_written() keeps count.
  void follow_writes();
  // Of shared::cluster addresses in the cluster's windows.
  void mark_written(std::uint64_t address, std::uint32_t bytes);
  std::span<const std::uint8_t> written(const Cta& cta) const;
};

// The CTA's linear index in the grid.
std::int64_t linear_index(const Cta& cta);

void set_runnable(const Warp& warp);
bool is_runnable(const Warp& warp);

// Some lanes exited: barriers and .sync instructions may no longer wait for them.
void lanes_left(Warp& warp);

// An instruction has moved so many bytes: much more than others do. Its turn ends, and that of its cluster
// comes sooner, so that interruptions and limits are looked at as often as ever.
void charge(Warp& warp, std::uint64_t bytes);

// Ends a phase: wakes every warp that waits for it.
void complete_barrier(Cta& cta, std::uint32_t number);
void complete_cluster_barrier(Cluster& cluster);

// In words, for deadlock reports.
std::string describe_wait(const Warp& warp, const Group& group);

}  // namespace sglab::emu
