#include "machine/scheduler/run_launch.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "machine/float/environment.hpp"
#include "machine/scheduler/scheduler.hpp"

namespace sglab::emu {
namespace {

using Clock = std::chrono::steady_clock;

// Asks now and then whether to stop.
class Poll {
 public:
  explicit Poll(const std::function<bool()>* interrupted) : interrupted_(interrupted) {}
  bool operator()() {
    if (interrupted_ == nullptr) return false;
    const auto now = Clock::now();
    if (now < next_) return false;
    next_ = now + kInterval;
    return (*interrupted_)();
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{30};
  const std::function<bool()>* interrupted_;
  Clock::time_point next_ = Clock::now() + kInterval;
};

// A turn of a cluster. A fault takes along what is known of the launch so far.
const Cluster* run_turn(Scheduler& scheduler, Tally& tally) {
  try {
    return scheduler.run_turn();
  } catch (LaunchFault& caught) {
    if (const Cluster* const cluster = scheduler.at_fault()) {
      add_barriers(tally, *cluster);
      tally.look_ahead(*cluster);
    }
    caught.fault.tally = std::make_shared<const Tally>(tally);
    throw;
  }
}

void check_limit(const Launch& launch, const Cluster* cluster, const Tally& tally) {
  const std::uint64_t executed = launch.executed, limit = launch.config.max_instructions;
  if (limit == 0 || executed <= limit || cluster == nullptr) return;
  Fault at;
  for (const Warp& w : cluster->warps) {
    if (w.group_count != 0 && runnable(w)) locate(at, w, w.groups[w.group].pc);
  }
  raise_livelock(launch, executed, tally, {cluster}, std::move(at));
}

// Runs clusters until none is left; any number of threads may do so at once.
void work(Launch& launch, Tally& tally, const std::function<bool()>* interrupted) {
  const PlainArithmetic plain;
  tally.reset(launch.program->code.size(), launch.config);
  Scheduler scheduler(launch, tally);
  Poll poll(interrupted);
  try {
    while (!scheduler.over() && !launch.stop.load(std::memory_order_relaxed)) {
      const Cluster* const cluster = run_turn(scheduler, tally);
      check_limit(launch, cluster, tally);
      if (poll()) raise_interrupted(launch);
    }
    if (launch.observers.none()) return;
    for (const auto& cluster : scheduler.owned()) add_barriers(tally, *cluster);
  } catch (LaunchFault& caught) {
    const std::lock_guard lock(launch.mutex);
    launch.observers.notify([&](Observer& o) { o.failed(caught.fault); });
    if (launch.fault == nullptr) launch.fault = std::make_unique<Fault>(std::move(caught.fault));
    launch.stop.store(true);
  }
}

}  // namespace

void raise_livelock(const Launch& launch, std::uint64_t executed, const Tally& tally,
                    const std::vector<const Cluster*>& running, Fault fault) {
  fault.kind = "livelock";
  fault.kernel = launch.program->name;
  fault.message = "the launch has executed " + std::to_string(executed) +
                  " warp-instructions, more than its limit of " +
                  std::to_string(launch.config.max_instructions);
  if (const Explainer* const explainer = launch.config.explainer.get())
    explainer->livelock(*launch.program, tally.executions(), running, fault);
  throw LaunchFault(std::move(fault));
}

void raise_interrupted(const Launch& launch) {
  Fault fault;
  fault.kind = "interrupted";
  fault.kernel = launch.program->name;
  fault.message = "the launch was interrupted";
  throw LaunchFault(std::move(fault));
}

LaunchReport make_report(const Program& program, std::vector<std::uint64_t> executions) {
  LaunchReport report;
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    if (program.places[pc].line == 0) continue;  // added by the decoder
    report.by_class[static_cast<std::size_t>(program.code[pc].kind)] += executions[pc];
    report.warp_instructions += executions[pc];
  }
  report.executions = std::move(executions);
  return report;
}

LaunchReport run_launch(const Program& program, LaunchConfig config,
                        const std::function<bool()>& interrupted) {
  const auto start = Clock::now();
  const std::unique_ptr<Launch> launch = prepare_launch(program, std::move(config));
  const auto workers = static_cast<std::size_t>(
      std::clamp<std::uint64_t>(launch->cluster_total, 1, std::max(launch->config.threads, 1u)));
  std::vector<Tally> tallies(workers);
  std::vector<std::thread> threads;
  for (std::size_t k = 1; k < workers; ++k) {
    threads.emplace_back([&launch, &tallies, k] { work(*launch, tallies[k], nullptr); });
  }
  work(*launch, tallies[0], &interrupted);
  for (std::thread& thread : threads) thread.join();
  if (launch->fault != nullptr) throw LaunchFault(std::move(*launch->fault));

  std::vector<std::uint64_t> executions = tallies[0].executions();
  for (std::size_t k = 1; k < workers; ++k) {
    const std::vector<std::uint64_t> more = tallies[k].executions();
    for (std::size_t pc = 0; pc < more.size(); ++pc) executions[pc] += more[pc];
  }
  LaunchReport report = make_report(program, std::move(executions));
  report.output = std::move(launch->output);
  report.warnings = std::move(launch->warnings);
  // There is one worker then.
  if (!launch->observers.none()) report.tally = std::make_shared<const Tally>(std::move(tallies[0]));
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace sglab::emu
