#include "machine/engine/launch.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "machine/engine/cluster.hpp"
#include "machine/engine/rest.hpp"
#include "machine/float/environment.hpp"
#include "observe/sanitize/hot_loop.hpp"
#include "observe/sanitize/sanitizer.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kSharedPerCta = 232448;
constexpr std::uint32_t kSharedPerSm = 233472;
constexpr std::uint32_t kThreadsPerSm = 2048;
constexpr std::uint32_t kCtasPerSm = 32;

using Extent3 = std::array<std::uint32_t, 3>;

std::string shown(const Extent3& e) {
  return "(" + std::to_string(e[0]) + ", " + std::to_string(e[1]) + ", " + std::to_string(e[2]) + ")";
}

std::uint64_t product(const Extent3& e) {
  return std::uint64_t{e[0]} * e[1] * e[2];
}

[[noreturn]] void refuse(const Program& program, const std::string& message) {
  Fault fault;
  fault.kind = "launch";
  fault.kernel = program.name;
  fault.message = message;
  throw LaunchFault(std::move(fault));
}

void check(const Program& program, const LaunchConfig& config) {
  if (!program.unsupported.empty()) {
    std::string text = "kernel " + program.name + " uses what the emulator does not know:";
    for (const std::string& what : program.unsupported) text += "\n  " + what;
    refuse(program, text);
  }
  const Function& source = program.image->module().functions[program.source];
  const std::uint64_t threads = product(config.block), ctas = product(config.cluster);
  if (threads == 0 || threads > 1024 || config.block[2] > 64) {
    refuse(program, "block " + shown(config.block) + " must hold 1 to 1024 threads");
  }
  if (product(config.grid) == 0 || config.grid[0] > 0x7fffffffu || config.grid[1] > 65535 ||
      config.grid[2] > 65535) {
    refuse(program, "grid " + shown(config.grid) + " is out of range");
  }
  if (ctas == 0 || ctas > 16) refuse(program, "cluster " + shown(config.cluster) + " must hold 1 to 16 CTAs");
  for (unsigned i = 0; i < 3; ++i) {
    if (config.grid[i] % config.cluster[i] != 0) {
      refuse(program, "cluster " + shown(config.cluster) + " does not divide grid " + shown(config.grid));
    }
  }
  if (source.reqntid[0] != 0 && source.reqntid != config.block) {
    refuse(program, "the kernel requires block " + shown(source.reqntid) + ", not " + shown(config.block));
  }
  if (source.maxntid[0] != 0 && threads > product(source.maxntid)) {
    refuse(program,
           "block " + shown(config.block) + " exceeds the kernel's .maxntid " + shown(source.maxntid));
  }
  if (source.reqnctapercluster[0] != 0 && source.reqnctapercluster != config.cluster) {
    refuse(program, "the kernel requires cluster " + shown(source.reqnctapercluster) + ", not " +
                        shown(config.cluster));
  }
  const std::uint64_t shared = std::uint64_t{program.shared_bytes} + config.dynamic_shared;
  if (shared > kSharedPerCta) {
    refuse(program, "shared memory: " + std::to_string(program.shared_bytes) + " static + " +
                        std::to_string(config.dynamic_shared) + " dynamic bytes exceed " +
                        std::to_string(kSharedPerCta));
  }
  if (config.parameters.size() != program.parameter_bytes) {
    refuse(program, "the kernel takes " + std::to_string(program.parameter_bytes) +
                        " bytes of parameters, not " + std::to_string(config.parameters.size()));
  }
}

std::uint32_t resident_clusters(const Program& program, const LaunchConfig& config) {
  const auto threads = static_cast<std::uint32_t>(product(config.block));
  const std::uint32_t shared = program.dynamic_shared + config.dynamic_shared;
  const std::uint32_t per_sm =
      std::max(1u, std::min({kCtasPerSm, kThreadsPerSm / threads, kSharedPerSm / std::max(shared, 1u)}));
  const std::uint64_t ctas = std::uint64_t{std::max(config.sms, 1u)} * per_sm;
  const std::uint64_t clusters = ctas / product(config.cluster);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, clusters / std::max(config.threads, 1u)));
}

}  // namespace

const Allocation* Launch::find(std::uint64_t address) const {
  auto above = std::upper_bound(allocations.begin(), allocations.end(), address,
                                [](std::uint64_t a, const Allocation& b) { return a < b.begin; });
  if (above == allocations.begin()) return nullptr;
  --above;
  return address < above->end ? &*above : nullptr;
}

std::string Launch::nearest(std::uint64_t address) const {
  const Allocation* best = nullptr;
  std::uint64_t distance = 0;
  for (const Allocation& a : allocations) {
    const std::uint64_t d = address < a.begin ? a.begin - address : address >= a.end ? address - a.end : 0;
    if (best == nullptr || d < distance) best = &a, distance = d;
  }
  if (best == nullptr) return "no memory was registered for this launch";
  const std::string name = (best->name.empty() ? "an allocation" : "'" + best->name + "'") +
                           std::string(" (") + hex(best->begin) + ", " +
                           std::to_string(best->end - best->begin) + " bytes)";
  if (address < best->begin) return std::to_string(distance) + " bytes before " + name;
  if (address >= best->end) return std::to_string(distance) + " bytes behind the end of " + name;
  return "across the end of " + name;
}

std::unique_ptr<Launch> prepare_launch(const Program& program, LaunchConfig config) {
  check(program, config);
  if (config.sanitizer != nullptr) config.threads = 1;
  auto launch = std::make_unique<Launch>();
  launch->program = &program;
  launch->allocations = std::move(config.allocations);
  const std::vector<Allocation>& own = program.image->allocations();
  launch->allocations.insert(launch->allocations.end(), own.begin(), own.end());
  std::erase_if(launch->allocations, [](const Allocation& a) { return a.begin >= a.end; });
  std::sort(launch->allocations.begin(), launch->allocations.end(),
            [](const Allocation& a, const Allocation& b) { return a.begin < b.begin; });
  for (unsigned i = 0; i < 3; ++i) launch->clusters[i] = config.grid[i] / config.cluster[i];
  launch->cluster_total = product(launch->clusters);
  launch->resident = resident_clusters(program, config);
  launch->concurrent = config.threads > 1;
  launch->config = std::move(config);
  launch->sanitizer = launch->config.sanitizer.get();
  if (launch->sanitizer != nullptr) launch->sanitizer->launched(*launch);
  return launch;
}

namespace {

// One host thread's share of a launch.
class Worker {
 public:
  Worker(Launch& launch, Tally& tally, const std::function<bool()>* interrupted)
      : launch_(launch), tally_(tally), interrupted_(interrupted) {
    ++launch_.busy;
  }
  ~Worker() {
    if (busy_) --launch_.busy;
  }

  // A new cluster is only started when all running ones have had a turn and have not finished.
  void run() {
    while (!launch_.stop.load(std::memory_order_relaxed)) {
      if (running_.size() < launch_.resident) start_next();
      if (running_.empty()) return count_barriers();
      for (std::size_t turns = running_.size(); turns > 0; --turns) {
        turn();
        rest();
        poll();
        if (launch_.stop.load(std::memory_order_relaxed)) return;
      }
    }
  }

 private:
  void start_next() {
    if (launch_.next.load(std::memory_order_relaxed) >= launch_.cluster_total) return;
    const std::uint64_t number = launch_.next.fetch_add(1);
    if (number >= launch_.cluster_total) return;
    if (idle_.empty()) idle_.push_back(std::make_unique<Cluster>());
    running_.push_front(std::move(idle_.back()));
    idle_.pop_back();
    running_.front()->start(launch_, number, tally_);
    rest_.over();
  }

  void turn() {
    std::unique_ptr<Cluster> cluster = std::move(running_.front());
    running_.pop_front();
    const std::uint64_t before = cluster->executed, events = cluster->events;
    const bool finished = run(*cluster);
    const std::uint64_t total = launch_.executed += cluster->executed - before;
    if (launch_.config.max_instructions != 0 && total > launch_.config.max_instructions)
      raise_livelock(*cluster, total);
    if (!finished && cluster->stuck) {
      rest_.note(cluster->events != events);
    } else {
      rest_.over();
    }
    if (finished) {
      idle_.push_back(std::move(cluster));
    } else {
      running_.push_back(std::move(cluster));
    }
  }

  // When no cluster of any worker can go on, that is a deadlock, told of the first one.
  void rest() {
    if (rest_.turns() == 0) {
      alone_ = 0;
      if (!std::exchange(busy_, true)) ++launch_.busy;
    }
    if (running_.empty() || rest_.turns() < Rest::kTurns * running_.size()) return;
    if (std::exchange(busy_, false)) --launch_.busy;
    if (launch_.busy != 0) {
      alone_ = 0;
      std::this_thread::yield();
    } else if (++alone_ > running_.size()) {  // all have looked since the last worker stopped
      Cluster& first = **std::min_element(running_.begin(), running_.end(),
                                          [](const auto& a, const auto& b) { return a->index < b->index; });
      explained(first, [&]() -> bool { first.raise_deadlock(); });
    }
  }

  bool run(Cluster& cluster) {
    return explained(cluster, [&] { return cluster.run(kSlice); });
  }

  // A fault takes along what is known of the launch so far.
  template <typename F>
  bool explained(Cluster& cluster, F f) {
    try {
      return f();
    } catch (LaunchFault& caught) {
      tally_.add_barriers(cluster);
      tally_.look_ahead(cluster);
      caught.fault.tally = std::make_shared<const Tally>(tally_);
      throw;
    }
  }

  void count_barriers() {
    if (launch_.sanitizer == nullptr) return;
    for (const auto& cluster : idle_) tally_.add_barriers(*cluster);
  }

  void poll() {
    if (interrupted_ == nullptr) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_poll_) return;
    next_poll_ = now + kPollInterval;
    if (!(*interrupted_)()) return;
    Fault fault;
    fault.kind = "interrupted";
    fault.kernel = launch_.program->name;
    fault.message = "the launch was interrupted";
    throw LaunchFault(std::move(fault));
  }

  [[noreturn]] void raise_livelock(const Cluster& cluster, std::uint64_t total) {
    Fault fault;
    fault.kind = "livelock";
    fault.kernel = launch_.program->name;
    for (const Warp& w : cluster.warps) {
      if (w.group_count != 0 && runnable(w)) locate(fault, w, w.groups[w.group].pc);
    }
    fault.message = "the launch has executed " + std::to_string(total) +
                    " warp-instructions, more than its limit of " +
                    std::to_string(launch_.config.max_instructions);
    std::vector<std::uint64_t> executions(launch_.program->code.size());
    std::int64_t running = 0;
    for (std::size_t pc = 0; pc < executions.size(); ++pc)
      executions[pc] = static_cast<std::uint64_t>(running += tally_.profile[pc]);
    fault.message += describe_hot_loop(*launch_.program, executions, {&cluster});
    throw LaunchFault(std::move(fault));
  }

  static constexpr std::chrono::milliseconds kPollInterval{30};

  Launch& launch_;
  Tally& tally_;
  const std::function<bool()>* interrupted_;
  std::chrono::steady_clock::time_point next_poll_ = std::chrono::steady_clock::now() + kPollInterval;
  Rest rest_;
  bool busy_ = true;
  std::size_t alone_ = 0;  // turns since no worker is busy
  std::deque<std::unique_ptr<Cluster>> running_;
  std::vector<std::unique_ptr<Cluster>> idle_;
};

}  // namespace

void work(Launch& launch, Tally& tally, const std::function<bool()>* interrupted) {
  const PlainArithmetic plain;
  tally.reset(launch.program->code.size(), launch.config);
  try {
    Worker(launch, tally, interrupted).run();
  } catch (LaunchFault& caught) {
    const std::lock_guard lock(launch.mutex);
    if (launch.sanitizer != nullptr) launch.sanitizer->failed(caught.fault);
    if (launch.fault == nullptr) launch.fault = std::make_unique<Fault>(std::move(caught.fault));
    launch.stop.store(true);
  }
}

}  // namespace sglab::emu
