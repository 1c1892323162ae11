#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "machine/engine/fault.hpp"
#include "machine/engine/tally.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {

class AsyncWatcher;

enum class Policy : std::uint8_t { kFair, kRandom, kAdversarial, kInOrder };

class Sanitizer;

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
  std::uint32_t threads = 1;
  std::shared_ptr<Sanitizer> sanitizer;  // nullptr: none; otherwise the launch runs on one host thread
};

constexpr std::uint64_t kSlice = 1u << 15;  // warp-instructions a cluster runs before another one has a turn

struct LaunchReport {
  std::uint64_t warp_instructions = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(InstClass::kCount)> by_class{};
  std::vector<std::uint64_t> executions;  // by instruction
  std::string output;                     // of printf
  double seconds = 0;
  std::shared_ptr<const Tally> tally;  // of a launch with sanitizers
};

// What the clusters of one launch share.
struct Launch {
  const Program* program = nullptr;
  LaunchConfig config;
  Sanitizer* sanitizer = nullptr;       // who is to be told what happens; nullptr: nobody, for now
  std::vector<Allocation> allocations;  // sorted; the module's variables included
  std::array<std::uint32_t, 3> clusters{1, 1, 1};
  std::uint64_t cluster_total = 1;
  std::uint32_t resident = 1;  // clusters a worker may have started and not finished
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> executed{0};
  std::atomic<std::uint32_t> busy{0};  // workers with a cluster that can go on
  std::atomic<bool> stop{false};
  bool follows_writers = false;     // tensor memory keeps who wrote it
  bool replayed = false;            // clocks count instructions, so that running again gives the same
  AsyncWatcher* watcher = nullptr;  // told of asynchronous operations; only with one host thread
  std::uint64_t position = 0;       // instructions executed so far, kept up where the launch is stepped
  bool concurrent = false;          // several host threads: atomics must be atomic
  std::mutex mutex;                 // output, fault
  std::string output;
  std::unique_ptr<Fault> fault;

  // nullptr: no allocation holds the address.
  const Allocation* find(std::uint64_t address) const;
  // "… lies 16 bytes behind the end of 'out' (0x…, 1024 bytes)"
  std::string nearest(std::uint64_t address) const;
};

// Throws LaunchFault (kind "launch") if the kernel cannot be launched like this.
std::unique_ptr<Launch> prepare_launch(const Program& program, LaunchConfig config);

// Runs clusters until none is left; any number of threads may do so at once. `interrupted`, if
// given, is asked now and then whether to stop the launch.
void work(Launch& launch, Tally& tally, const std::function<bool()>* interrupted);

}  // namespace sglab::emu
