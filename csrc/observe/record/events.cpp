#include "observe/record/events.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "machine/async/engine.hpp"
#include "machine/float/environment.hpp"
#include "machine/front/poll.hpp"
#include "machine/scheduler/progress.hpp"
#include "machine/scheduler/run_launch.hpp"
#include "observe/record/async_recorder.hpp"
#include "observe/record/look_ahead.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kPollRuns = 64;  // between looks at the clock; a run may take 10 ms

// Instructions that touch memory, barriers and tensor memory are attempted one by one, so that their operands
// can be seen; all others run in stretches.
class Recorder {
 public:
  Recorder(Stepper& stepper, EventLog& log, bool details)
      : stepper_(stepper),
        log_(log),
        async_(stepper, log),
        detailed_(details),
        forms_(access_forms(stepper.program())),
        details_(forms_.size()),
        stops_(forms_.size()) {
    if (details) details_ = details_of(stepper.program());
    const Inst* stop = nullptr;
    for (auto pc = static_cast<std::uint32_t>(details_.size()); pc-- > 0;) {
      stops_[pc] = stop;
      if (details_[pc] != Detail::kNone) stop = &stepper.program().code[pc];
    }
    if (details) stepper.attach(async_);
  }
  ~Recorder() { stepper_.detach(async_); }
  Recorder(const Recorder&) = delete;

  // The next few instructions.
  void go_on() {
    const Inst* const inst = stepper_.next();
    if (inst == nullptr) return stepper_.tick();
    const auto pc = static_cast<std::size_t>(inst - stepper_.program().code.data());
    const Detail detail = details_[pc];
    if (detail != Detail::kNone)
      look_ahead(*stepper_.turn_of(), inst, forms_[pc], detail, stepper_.now(), seen_);
    const std::uint64_t before = stepper_.now();
    stepper_.stretch(detail != Detail::kNone ? inst + 1 : stops_[pc]);
    if (stepper_.now() == before) return;
    keep_run();
    keep_wait(before);
    if (detail != Detail::kNone) keep_details(inst, detail);
  }

 private:
  void keep_run() {
    const Stepper::Last& last = stepper_.last();
    const Inst* const code = stepper_.program().code.data();
    const auto begin = static_cast<std::uint32_t>(last.first - code);
    const std::uint32_t end = static_cast<std::uint32_t>(last.inst - code) + (last.done ? 1 : 0);
    const Warp& w = *last.warp;
    if (!log_.runs.empty() && last_warp_ == &w) {
      EventLog::Run& run = log_.runs.back();
      if (run.begin == begin && run.end == end && run.mask == last.mask && last_cluster_ == w.cluster->index)
        return void(++run.times);
    }
    last_warp_ = &w;
    last_cluster_ = w.cluster->index;
    log_.runs.push_back(
        {static_cast<std::uint32_t>(linear_index(*w.cta)), w.index, begin, end, last.mask, 1});
  }

  void keep_wait(std::uint64_t before) {
    const Stepper::Waiting& waited = stepper_.last().waited;
    if (waited.warp == nullptr || !detailed_) return;
    const std::uint64_t event =
        before + stepper_.counted_to(waited.inst) - stepper_.counted_to(stepper_.last().first);
    const auto object = static_cast<std::int64_t>(waited.key);
    log_.waits.push_back({waited.since, event, object,
                          phase_behind(*waited.warp, waited.wait, static_cast<std::uint32_t>(object)),
                          static_cast<std::uint8_t>(waited.wait)});
  }

  std::int64_t phase_behind(const Warp& w, Wait wait, std::uint32_t object) const {
    switch (wait) {
      case Wait::kBarrier:
        return async_.last_phase(*w.cta, BarrierKind::kNamed, object);
      case Wait::kMbarrier:
        return async_.last_phase(*w.cta, BarrierKind::kMbarrier, object);
      case Wait::kClusterBarrier:
        return async_.last_phase(*w.cta, BarrierKind::kCluster, 0);
      default:
        return -1;
    }
  }

  void keep_details(const Inst* inst, Detail detail) {
    const Warp& w = *stepper_.last().warp;
    log_.accesses.insert(log_.accesses.end(), seen_.accesses.begin(), seen_.accesses.end());
    for (const EventLog::Barrier& barrier : seen_.barriers) {
      log_.barriers.push_back(barrier);
      if (seen_.passes) log_.barriers.back().passed = passed(w, inst, barrier);
    }
    if (detail == Detail::kTmemWait) finish_stores(w);
    if (seen_.tmem) keep_tmem(w, inst, *seen_.tmem);
  }

  // A store takes effect at its wait.
  void keep_tmem(const Warp& w, const Inst* inst, EventLog::Tmem row) {
    if (row.kind == EventLog::Tmem::kAlloc) row.address = allocated_address(w, inst);
    if (row.kind == EventLog::Tmem::kStore) {
      stores_.push_back({&w, w.cluster->index, log_.tmem.size()});
    } else {
      row.done = static_cast<std::int64_t>(row.event);
    }
    log_.tmem.push_back(row);
  }

  void finish_stores(const Warp& w) {
    const auto its = [&](const Store& store) {
      return store.warp == &w && store.cluster == w.cluster->index;
    };
    for (const Store& store : stores_) {
      if (its(store)) log_.tmem[store.row].done = static_cast<std::int64_t>(stepper_.now() - 1);
    }
    std::erase_if(stores_, its);
  }

  // A test or wait that failed let no lane pass.
  std::int64_t passed(const Warp& w, const Inst* inst, const EventLog::Barrier& barrier) const {
    const auto kind = static_cast<BarrierKind>(barrier.kind);
    if (kind == BarrierKind::kMbarrier && (w.predicates[inst->d] & seen_.lanes) == 0) return -2;
    return async_.last_phase(*w.cta, kind, barrier.object);
  }

  struct Store {
    const Warp* warp;
    std::uint64_t cluster;
    std::size_t row;
  };

  Stepper& stepper_;
  EventLog& log_;
  AsyncRecorder async_;
  bool detailed_;
  std::vector<AccessForm> forms_;
  std::vector<Detail> details_;
  std::vector<const Inst*> stops_;  // the next instruction with details
  const Warp* last_warp_ = nullptr;
  std::uint64_t last_cluster_ = 0;
  Seen seen_;                  // of the instruction being attempted
  std::vector<Store> stores_;  // without their wait so far
};

}  // namespace

void record(Stepper& stepper, bool details, const std::function<bool()>& interrupted, EventLog& log) {
  Recorder recorder(stepper, log, details);
  Poll poll(&interrupted);
  for (std::uint32_t round = 1; !stepper.over(); ++round) {
    recorder.go_on();
    if (round % kPollRuns != 0) continue;
    stepper.check_limit();
    executed_so_far = stepper.now();
    if (poll()) raise_interrupted(stepper.launch());
  }
}

LaunchReport record_launch(const Program& program, LaunchConfig config, bool details,
                           const std::function<bool()>& interrupted, EventLog& log) {
  const auto start = std::chrono::steady_clock::now();
  Stepper stepper(program, std::move(config));
  const PlainArithmetic plain;
  try {
    record(stepper, details, interrupted, log);
  } catch (LaunchFault& caught) {
    stepper.failed(caught.fault);
    caught.fault.tally = std::make_shared<const Tally>(stepper.tally());
    throw;
  }
  LaunchReport report = make_report(program, stepper.executions());
  report.output = stepper.launch().output.text();
  report.warnings = stepper.launch().warnings;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace sglab::emu
