#include "emulator/debug/events.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "emulator/async/engine.hpp"
#include "emulator/debug/breakpoints.hpp"
#include "emulator/engine/machine.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/memory/aperture.hpp"
#include "emulator/sanitize/sanitizer.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kPollRuns = 1u << 12;

enum class Detail : std::uint8_t { kNone, kAccess, kNamedBarrier, kMbarrier, kClusterBarrier };

class Recorder {
 public:
  Recorder(const Stepper& stepper, EventLog& log)
      : stepper_(stepper), log_(log), forms_(access_forms(stepper.program())), details_(forms_.size()) {
    for (std::uint32_t pc = 0; pc < details_.size(); ++pc) details_[pc] = detail_of(pc);
  }

  // Before an attempt: addresses and phases are still those that the instruction finds.
  void look_ahead() {
    accesses_.clear();
    barrier_.reset();
    const Inst* const inst = stepper_.next();
    if (inst == nullptr) return;
    const auto pc = static_cast<std::size_t>(inst - stepper_.program().code.data());
    if (details_[pc] == Detail::kNone) return;
    const Warp& w = *stepper_.turn_of();
    if (details_[pc] == Detail::kAccess) {
      look_at_access(w, inst, forms_[pc], Space::kGlobal);
      look_at_access(w, inst, forms_[pc], Space::kShared);
    } else {
      look_at_barrier(w, inst, details_[pc]);
    }
  }

  void keep_details() {
    const Stepper::Last& last = stepper_.last();
    log_.accesses.insert(log_.accesses.end(), accesses_.begin(), accesses_.end());
    if (barrier_) log_.barriers.push_back(*barrier_);
    if (last.waited.warp != nullptr) log_.waits.push_back({last.waited.since, stepper_.now() - 1});
  }

  void keep_run() {
    const Stepper::Last& last = stepper_.last();
    const Inst* const code = stepper_.program().code.data();
    const auto begin = static_cast<std::uint32_t>(last.first - code);
    const std::uint32_t end = static_cast<std::uint32_t>(last.inst - code) + (last.done ? 1 : 0);
    if (begin == end) return;
    const Warp& w = *last.warp;
    log_.runs.push_back({static_cast<std::uint32_t>(linear_index(*w.cta)), w.index, begin, end, last.mask});
  }

 private:
  Detail detail_of(std::uint32_t pc) const {
    if (forms_[pc].space != Space::kReg) return Detail::kAccess;
    const std::string_view opcode = opcode_of(stepper_.program(), pc);
    if (opcode.starts_with("barrier.cluster")) return Detail::kClusterBarrier;
    if (opcode.starts_with("bar.warp")) return Detail::kNone;
    if (opcode.starts_with("bar.") || opcode.starts_with("barrier.")) return Detail::kNamedBarrier;
    if (opcode.starts_with("mbarrier.pending_count")) return Detail::kNone;
    if (opcode.starts_with("mbarrier.") || opcode.starts_with("cp.async.mbarrier.arrive"))
      return Detail::kMbarrier;
    return Detail::kNone;
  }

  void look_at_access(const Warp& w, const Inst* inst, const AccessForm& form, Space space) {
    const LaneAccess access = lane_access(w, inst, form, space);
    if (access.lanes == 0) return;
    std::uint64_t low = ~std::uint64_t{0}, high = 0;
    for (std::uint32_t m = access.lanes; m != 0; m &= m - 1) {
      low = std::min(low, access.address[std::countr_zero(m)]);
      high = std::max(high, access.address[std::countr_zero(m)]);
    }
    const auto lanes = static_cast<std::uint8_t>(std::popcount(access.lanes));
    const std::uint64_t span = std::min<std::uint64_t>(high - low + form.bytes, 0xffffffffu);
    accesses_.push_back({stepper_.now(), low, static_cast<std::uint32_t>(span),
                         static_cast<std::uint32_t>(lanes) * form.bytes, lanes,
                         static_cast<std::uint8_t>(space == Space::kShared),
                         static_cast<std::uint8_t>((form.reads ? 1 : 0) | (form.writes ? 2 : 0))});
  }

  void look_at_barrier(const Warp& w, const Inst* inst, Detail detail) {
    const std::uint32_t lanes = active_lanes(w, inst);
    if (lanes == 0) return;
    const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
    EventLog::Barrier made{stepper_.now(), 0, 0, 0};
    if (detail == Detail::kNamedBarrier) {
      const auto* const number =
          reinterpret_cast<const std::uint32_t*>(w.bank[inst->a >> 31] + (inst->a & ~kConstantRef));
      made.object = number[lane];
      if (made.object >= w.cta->barriers.size()) return;
      made.phase = w.cta->barriers[made.object].phase;
    } else if (detail == Detail::kClusterBarrier) {
      made.kind = 2;
      made.phase = w.cluster->barrier.phase;
    } else {
      std::uint64_t addresses[32];
      lane_addresses(w, inst, addresses);
      made.kind = 1;
      made.object = static_cast<std::uint32_t>(addresses[lane]);
      const std::uint32_t rank = made.object >> kSharedRankShift, offset = made.object & kSharedOffsetMask;
      if (rank >= w.cluster->ctas.size() || offset + 8 > w.cluster->shared_bytes) return;
      std::uint64_t word;
      std::memcpy(&word, w.cluster->ctas[rank].shared + offset, sizeof word);
      made.phase = word >> 63;
    }
    barrier_ = made;
  }

  const Stepper& stepper_;
  EventLog& log_;
  std::vector<AccessForm> forms_;
  std::vector<Detail> details_;
  std::vector<EventLog::Access> accesses_;
  std::optional<EventLog::Barrier> barrier_;
};

void check(const Stepper& stepper, const std::function<bool()>& interrupted) {
  Fault fault;
  fault.kernel = stepper.program().name;
  const std::uint64_t limit = stepper.launch().config.max_instructions;
  if (limit != 0 && stepper.now() > limit) {
    fault.kind = "livelock";
    fault.message = "the launch has executed " + std::to_string(stepper.now()) +
                    " warp-instructions, more than its limit of " + std::to_string(limit);
    throw LaunchFault(std::move(fault));
  }
  if (interrupted && interrupted()) {
    fault.kind = "interrupted";
    fault.message = "the launch was interrupted";
    throw LaunchFault(std::move(fault));
  }
}

void record(Stepper& stepper, Recorder& recorder, bool details, const std::function<bool()>& interrupted) {
  for (std::uint32_t round = 1; !stepper.over(); ++round) {
    const bool attempts = stepper.turn_of() != nullptr;
    const std::uint64_t before = stepper.now();
    if (details) recorder.look_ahead();
    if (details) {
      stepper.tick();
    } else {
      stepper.stretch();
    }
    if (attempts && stepper.now() != before) {
      recorder.keep_run();
      if (details) recorder.keep_details();
    }
    if (round % kPollRuns == 0) check(stepper, interrupted);
  }
}

}  // namespace

LaunchReport record_launch(const Program& program, LaunchConfig config, bool details,
                           const std::function<bool()>& interrupted, EventLog& log) {
  const auto start = std::chrono::steady_clock::now();
  Stepper stepper(program, std::move(config));
  const Stepper::Running running(stepper);
  Recorder recorder(stepper, log);
  try {
    record(stepper, recorder, details, interrupted);
  } catch (const LaunchFault& caught) {
    if (Sanitizer* const sanitizer = stepper.launch().sanitizer) sanitizer->failed(caught.fault);
    throw;
  }
  LaunchReport report = make_report(program, stepper.executions());
  report.output = stepper.launch().output;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace sglab::emu
