#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "machine/engine/fault.hpp"
#include "machine/engine/observer.hpp"
#include "machine/engine/print_ring.hpp"
#include "machine/engine/tally.hpp"
#include "machine/engine/warning.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {

enum class Policy : std::uint8_t { kFair, kRandom, kAdversarial, kInOrder };

// Says more of a launch that failed than the machine itself knows.
class Explainer {
 public:
  virtual ~Explainer() = default;
  // No warp of the cluster can continue. Adds to Fault::message, and who waits for whom.
  virtual void deadlock(const Cluster& cluster, Fault& fault) const = 0;
  // The launch has run for too long; `executions`: by instruction. Adds to Fault::message.
  virtual void livelock(const Program& program, const std::vector<std::uint64_t>& executions,
                        const std::vector<const Cluster*>& running, Fault& fault) const = 0;
};

// What one SM holds at once; a B200's unless said otherwise.
struct SmLimits {
  std::uint32_t threads = 2048;
  std::uint32_t ctas = 32;
  std::uint32_t shared = 233472;  // bytes
};

struct LaunchConfig {
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{1, 1, 1};
  std::uint32_t dynamic_shared = 0;
  std::vector<std::uint8_t> parameters;
  std::vector<Allocation> allocations;
  std::uint64_t max_instructions = 0;  // 0: no limit
  Policy policy = Policy::kFair;
  std::uint64_t seed = 0;
  std::uint32_t sms = 1;
  SmLimits sm;
  std::uint32_t threads = 1;                   // of the host
  bool threads_if_apart = false;               // only where no cluster can tell, and the work is worth them
  std::shared_ptr<Observer> observer;          // nullptr: none; otherwise the launch runs on one host thread
  std::shared_ptr<const Explainer> explainer;  // nullptr: faults say what the machine knows
};

struct LaunchReport {
  std::uint64_t warp_instructions = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(InstClass::kCount)> by_class{};
  std::vector<std::uint64_t> executions;  // by instruction
  std::string output;                     // of printf
  std::vector<Warning> warnings;
  std::uint32_t threads = 1;  // of the host that ran it
  double seconds = 0;
  std::shared_ptr<const Tally> tally;  // of an observed launch
};

// What the clusters of one launch share.
struct Launch {
  static constexpr std::uint64_t kNoCluster = ~std::uint64_t{0};

  const Program* program = nullptr;
  LaunchConfig config;
  Observers observers;                  // config.observer, and those that follow a stepped launch
  std::vector<Allocation> allocations;  // sorted; the module's variables included
  std::array<std::uint32_t, 3> clusters{1, 1, 1};
  std::uint64_t cluster_total = 1;
  std::uint32_t resident = 1;  // clusters a worker may have started and not finished
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> executed{0};
  std::atomic<std::uint32_t> busy{0};                // workers with a cluster that can continue
  std::atomic<std::uint64_t> stop_from{kNoCluster};  // these clusters need not go on: an earlier one failed
  bool follows_writers = false;                      // tensor memory keeps who wrote it
  bool replayed = false;       // clocks count instructions, so that running again gives the same
  std::uint64_t position = 0;  // instructions executed so far, kept up where the launch is stepped
  bool concurrent = false;     // several host threads: atomics must be atomic
  bool apart = false;          // and no cluster can notice another, so that nobody should notice the threads
  std::array<std::uint32_t, 2> grid_workspace{8, 0};  // its size, and the barrier of the grid
  std::mutex mutex;                                   // output, warnings, fault
  PrintRing output;
  std::vector<Warning> warnings;
  std::uint64_t warned = 0;
  std::unique_ptr<Fault> fault;

  // One past the last cluster that should still be run.
  std::uint64_t end() const { return std::min(cluster_total, stop_from.load(std::memory_order_relaxed)); }
  // nullptr: no allocation holds the address.
  const Allocation* find(std::uint64_t address) const;
  // nullptr: no allocation holds all of these bytes, which may wrap around the address space.
  const Allocation* find(std::uint64_t address, std::uint64_t bytes) const;
  // "… lies 16 bytes past the end of 'out' (0x…, 1024 bytes)"
  std::string nearest(std::uint64_t address) const;
};

// CTAs of a kernel that an SM holds at once, by threads and shared memory: never fewer than on a GPU, where
// registers and named barriers count as well. At least 1.
std::uint32_t ctas_per_sm(const Program& program, std::uint64_t threads, std::uint64_t dynamic_shared,
                          const SmLimits& sm);

// Throws LaunchFault (kind "launch") if the kernel cannot be launched like this.
std::unique_ptr<Launch> prepare_launch(const Program& program, LaunchConfig config);

}  // namespace sglab::emu
