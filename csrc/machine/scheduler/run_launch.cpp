#include "machine/scheduler/run_launch.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "machine/engine/counted.hpp"
#include "machine/float/environment.hpp"
#include "machine/front/poll.hpp"
#include "machine/scheduler/circles.hpp"
#include "machine/scheduler/progress.hpp"
#include "machine/scheduler/scheduler.hpp"

namespace sglab::emu {
namespace {

using Clock = std::chrono::steady_clock;

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

void check_limit(const Launch& launch, const Scheduler& scheduler, const Cluster* cluster, const Tally& tally,
                 Circles& circles) {
  const std::uint64_t executed = launch.executed, limit = launch.config.max_instructions;
  if (limit == 0 || cluster == nullptr) return;
  const bool circle = circles.closed(launch, scheduler.state(), executed);
  if (!circle && executed <= limit) return;
  Fault at;
  for (const Warp& w : cluster->warps) {
    if (w.group_count != 0 && runnable(w)) locate(at, w, w.groups[w.group].pc);
  }
  raise_livelock(launch, executed, circle, tally, {cluster}, std::move(at));
}

Fault refusal(const char* kind, const Program& program, const std::string& message) {
  Fault fault;
  fault.kind = kind;
  fault.kernel = program.name;
  fault.message = message;
  return fault;
}

Fault interruption(const Launch& launch) {
  return refusal("interrupted", *launch.program, "the launch was interrupted");
}

// `cluster`: those before it, in which an earlier fault may be, go on.
void give_up(Launch& launch, Fault fault, std::uint64_t cluster = 0) {
  const std::lock_guard lock(launch.mutex);
  launch.observers.notify([&](Observer& o) { o.failed(fault); });
  if (cluster >= launch.stop_from) return;
  launch.fault = std::make_unique<Fault>(std::move(fault));
  launch.stop_from = cluster;
}

// The same fault whatever the host's threads did: of all clusters that fail, the first one's.
const Cluster* run_turn_apart(Launch& launch, Scheduler& scheduler, Tally& tally) {
  try {
    return run_turn(scheduler, tally);
  } catch (LaunchFault& caught) {
    const Cluster* const cluster = scheduler.at_fault();
    if (!launch.apart || cluster == nullptr) throw;
    give_up(launch, std::move(caught.fault), cluster->index);
    scheduler.abandon();
    return nullptr;
  }
}

// Runs clusters until none is left; any number of threads may do so at once.
void work(Launch& launch, Tally& tally, const std::function<bool()>* interrupted) {
  const PlainArithmetic plain;
  tally.reset(launch.program->code.size(), launch.config);
  Scheduler scheduler(launch, tally);
  Circles circles;
  Poll poll(interrupted);
  try {
    while (!scheduler.over()) {
      const Cluster* const cluster = run_turn_apart(launch, scheduler, tally);
      check_limit(launch, scheduler, cluster, tally, circles);
      executed_so_far = launch.executed;
      if (poll()) raise_interrupted(launch);
    }
    if (launch.observers.none()) return;
    for (const auto& cluster : scheduler.owned()) add_barriers(tally, *cluster);
  } catch (LaunchFault& caught) {
    give_up(launch, std::move(caught.fault));
  } catch (const std::bad_alloc&) {
    give_up(launch, out_of_memory(launch));
  }
}

// Those of the host that run clusters beside the one that launched.
class HelpingThreads {
 public:
  // Throws LaunchFault if the system refuses one that was asked for by number.
  HelpingThreads(Launch& launch, std::vector<Tally>& tallies)
      : launch_(launch), working_(tallies.size() - 1) {
    threads_.reserve(tallies.size());
    try {
      while (threads_.size() + 1 < tallies.size()) {
        Tally& tally = tallies[threads_.size() + 1];
        threads_.emplace_back([this, &tally] {
          work(launch_, tally, nullptr);
          const std::lock_guard lock(mutex_);
          if (--working_ == 0) over_.notify_one();
        });
      }
    } catch (const std::system_error&) {
      const std::size_t refused = tallies.size() - 1 - threads_.size();
      {
        const std::lock_guard lock(mutex_);
        working_ -= refused;
      }
      if (launch_.config.threads_if_apart) return;  // fewer do as well
      const std::string number =
          std::to_string(threads_.size() + 2) + " of " + std::to_string(tallies.size());
      launch_.stop_from = 0;
      join();
      throw LaunchFault(refusal("launch", *launch_.program,
                                "the system refuses thread " + number + "; use a device with fewer threads"));
    }
  }
  ~HelpingThreads() { join(); }
  HelpingThreads(const HelpingThreads&) = delete;

  // Until all are done, or `interrupted`, asked every 30 ms, says to stop.
  void wait(const std::function<bool()>& interrupted) {
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, Poll::kInterval, [&] { return working_ == 0; })) {
      lock.unlock();
      executed_so_far = launch_.executed;
      if (interrupted && interrupted()) give_up(launch_, interruption(launch_));
      lock.lock();
    }
  }

 private:
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  Launch& launch_;
  std::mutex mutex_;
  std::condition_variable over_;
  std::size_t working_;
  std::vector<std::thread> threads_;
};

}  // namespace

void raise_livelock(const Launch& launch, std::uint64_t executed, bool circle, const Tally& tally,
                    const std::vector<const Cluster*>& running, Fault fault) {
  fault.kind = "livelock";
  fault.kernel = launch.program->name;
  fault.message = "the launch has executed " + counted(executed) + " warp-instructions, ";
  fault.message += circle
                       ? "and never ends: it goes round in circles, no warp changes anything any more that "
                         "another one waits for"
                       : "more than its limit of " + counted(launch.config.max_instructions);
  if (const Explainer* const explainer = launch.config.explainer.get())
    explainer->livelock(*launch.program, tally.executions(), running, fault);
  throw LaunchFault(std::move(fault));
}

Fault out_of_memory(const Launch& launch) {
  return refusal("memory", *launch.program, "the system has no more memory for this launch");
}

void raise_interrupted(const Launch& launch) {
  throw LaunchFault(interruption(launch));
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
  const std::size_t workers = launch->config.threads;
  std::vector<Tally> tallies(workers);
  {
    HelpingThreads helpers(*launch, tallies);
    work(*launch, tallies[0], &interrupted);
    helpers.wait(interrupted);
  }
  if (launch->fault != nullptr) throw LaunchFault(std::move(*launch->fault));

  std::vector<std::uint64_t> executions = tallies[0].executions();
  for (std::size_t k = 1; k < workers; ++k) {
    const std::vector<std::uint64_t> more = tallies[k].executions();
    for (std::size_t pc = 0; pc < more.size(); ++pc) executions[pc] += more[pc];
  }
  LaunchReport report = make_report(program, std::move(executions));
  report.output = launch->output.text();
  report.warnings = std::move(launch->warnings);
  std::sort(report.warnings.begin(), report.warnings.end(), [&](const Warning& a, const Warning& b) {
    return launch->apart && a.cluster != b.cluster ? a.cluster < b.cluster : a.given < b.given;
  });
  report.threads = launch->config.threads;
  // There is one worker then.
  if (!launch->observers.none()) report.tally = std::make_shared<const Tally>(std::move(tallies[0]));
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

}  // namespace sglab::emu
