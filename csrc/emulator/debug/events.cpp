#include "emulator/debug/events.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "emulator/async/engine.hpp"
#include "emulator/debug/async_recorder.hpp"
#include "emulator/debug/breakpoints.hpp"
#include "emulator/engine/machine.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/memory/aperture.hpp"
#include "emulator/ops/operands.hpp"
#include "emulator/sanitize/hot_loop.hpp"
#include "emulator/sanitize/sanitizer.hpp"
#include "emulator/tensor/tmem_transfer.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kPollRuns = 1u << 12;

enum class Detail : std::uint8_t {
  kNone,
  kAccess,
  kNamedBarrier,
  kMbarrier,
  kClusterBarrier,
  kTmemAlloc,
  kTmemDealloc,
  kTmemLoad,
  kTmemStore,
  kTmemWait,
};

Detail tmem_detail(std::string_view opcode) {
  if (opcode.starts_with("tcgen05.alloc")) return Detail::kTmemAlloc;
  if (opcode.starts_with("tcgen05.dealloc")) return Detail::kTmemDealloc;
  if (opcode.starts_with("tcgen05.ld.")) return Detail::kTmemLoad;
  if (opcode.starts_with("tcgen05.st.")) return Detail::kTmemStore;
  if (opcode.starts_with("tcgen05.wait::st")) return Detail::kTmemWait;
  return Detail::kNone;
}

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
    const Inst* stop = nullptr;
    for (auto pc = static_cast<std::uint32_t>(details_.size()); pc-- > 0;) {
      stops_[pc] = stop;
      if (details) details_[pc] = detail_of(pc);
      if (details_[pc] != Detail::kNone) stop = &stepper.program().code[pc];
    }
    if (details) stepper.set_watcher(&async_);
  }
  ~Recorder() { stepper_.set_watcher(nullptr); }
  Recorder(const Recorder&) = delete;

  // The next few instructions.
  void go_on() {
    const Inst* const inst = stepper_.next();
    if (inst == nullptr) return stepper_.tick();
    const auto pc = static_cast<std::size_t>(inst - stepper_.program().code.data());
    const Detail detail = details_[pc];
    if (detail != Detail::kNone) look_ahead(inst, forms_[pc], detail);
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

  // Addresses and phases are still those that the instruction finds.
  void look_ahead(const Inst* inst, const AccessForm& form, Detail detail) {
    accesses_.clear();
    barrier_.reset();
    tmem_.reset();
    const Warp& w = *stepper_.turn_of();
    if (detail == Detail::kAccess) {
      look_at_access(w, inst, form, Space::kGlobal);
      look_at_access(w, inst, form, Space::kShared);
    } else if (detail <= Detail::kClusterBarrier) {
      look_at_barrier(w, inst, detail);
    } else {
      look_at_tensor_memory(w, inst, detail);
    }
  }

  void keep_details(const Inst* inst, Detail detail) {
    const Warp& w = *stepper_.last().warp;
    log_.accesses.insert(log_.accesses.end(), accesses_.begin(), accesses_.end());
    if (barrier_) {
      if (passes_) barrier_->passed = passed(w, inst, *barrier_);
      log_.barriers.push_back(*barrier_);
    }
    if (detail == Detail::kTmemWait) finish_stores(w);
    if (!tmem_) return;
    if (detail == Detail::kTmemAlloc) tmem_->address = allocated(w, inst);
    if (detail == Detail::kTmemStore) {
      stores_.push_back({&w, log_.tmem.size()});
    } else {
      tmem_->done = static_cast<std::int64_t>(tmem_->event);
    }
    log_.tmem.push_back(*tmem_);
  }

  void finish_stores(const Warp& w) {
    for (const Store& store : stores_) {
      if (store.warp == &w) log_.tmem[store.row].done = static_cast<std::int64_t>(stepper_.now() - 1);
    }
    std::erase_if(stores_, [&](const Store& store) { return store.warp == &w; });
  }

  // A test or wait that failed let nobody pass.
  std::int64_t passed(const Warp& w, const Inst* inst, const EventLog::Barrier& barrier) const {
    const auto kind = static_cast<BarrierKind>(barrier.kind);
    if (kind == BarrierKind::kMbarrier && (w.predicates[inst->d] & tested_) == 0) return -2;
    return async_.last_phase(*w.cta, kind, barrier.object);
  }

  static std::uint32_t allocated(const Warp& w, const Inst* inst) {
    const auto at = static_cast<std::uint32_t>(address_of(w, main_address(inst), first_lane(w.group_mask)));
    std::uint32_t address;
    std::memcpy(&address, w.cta->shared + (at & kSharedOffsetMask), sizeof address);
    return address;
  }

  Detail detail_of(std::uint32_t pc) const {
    if (forms_[pc].space != Space::kReg) return Detail::kAccess;
    const std::string_view opcode = opcode_of(stepper_.program(), pc);
    if (opcode.starts_with("barrier.cluster")) return Detail::kClusterBarrier;
    if (opcode.starts_with("bar.warp")) return Detail::kNone;
    if (opcode.starts_with("bar.") || opcode.starts_with("barrier.")) return Detail::kNamedBarrier;
    if (opcode.starts_with("mbarrier.pending_count")) return Detail::kNone;
    if (opcode.starts_with("mbarrier.") || opcode.starts_with("cp.async.mbarrier.arrive"))
      return Detail::kMbarrier;
    return tmem_detail(opcode);
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
    EventLog::Barrier made{stepper_.now(), 0, -1, 0, static_cast<std::uint8_t>(BarrierKind::kNamed)};
    const std::string_view opcode =
        opcode_of(stepper_.program(), static_cast<std::uint32_t>(inst - stepper_.program().code.data()));
    passes_ = opcode.find("wait") != std::string_view::npos ||
              (detail == Detail::kNamedBarrier && opcode.find("arrive") == std::string_view::npos);
    tested_ = lanes;
    if (detail == Detail::kNamedBarrier) {
      const auto* const number =
          reinterpret_cast<const std::uint32_t*>(w.bank[inst->a >> 31] + (inst->a & ~kConstantRef));
      made.object = number[lane];
      if (made.object >= w.cta->barriers.size()) return;
      made.phase = w.cta->barriers[made.object].phase;
    } else if (detail == Detail::kClusterBarrier) {
      made.kind = static_cast<std::uint8_t>(BarrierKind::kCluster);
      made.phase = w.cluster->barrier.phase;
    } else {
      std::uint64_t addresses[32];
      lane_addresses(w, inst, addresses);
      made.kind = static_cast<std::uint8_t>(BarrierKind::kMbarrier);
      made.object = static_cast<std::uint32_t>(addresses[lane]);
      const std::uint32_t rank = made.object >> kSharedRankShift, offset = made.object & kSharedOffsetMask;
      if (rank >= w.cluster->ctas.size() || offset + 8 > w.cluster->shared_bytes) return;
      std::uint64_t word;
      std::memcpy(&word, w.cluster->ctas[rank].shared + offset, sizeof word);
      made.phase = word >> 63;
    }
    barrier_ = made;
  }

  void look_at_tensor_memory(const Warp& w, const Inst* inst, Detail detail) {
    if (detail == Detail::kTmemWait) return;
    const std::uint32_t lanes = active_lanes(w, inst);
    if (lanes == 0) return;
    const int lane = first_lane(lanes);
    EventLog::Tmem made{};
    made.event = stepper_.now();
    made.done = -1;
    made.cta_group = 1;
    if (detail == Detail::kTmemAlloc || detail == Detail::kTmemDealloc) {
      made.kind = detail == Detail::kTmemAlloc ? EventLog::Tmem::kAlloc : EventLog::Tmem::kDealloc;
      made.cta_group = static_cast<std::uint8_t>(inst->target);
      made.columns = static_cast<std::uint16_t>(lanes32(w, inst->b)[lane]);
      made.lanes = TensorMemory::kLanes;
      if (detail == Detail::kTmemDealloc) made.address = lanes32(w, inst->a)[lane];
    } else {
      const std::int64_t* const v = inst->extra->values.data();
      const LdStForm form{static_cast<LdStShape>(v[0]), static_cast<int>(v[1]), v[2] != 0,
                          static_cast<int>(v[3])};
      made.kind = detail == Detail::kTmemLoad ? EventLog::Tmem::kLoad : EventLog::Tmem::kStore;
      made.address = static_cast<std::uint32_t>(address_of(w, main_address(inst), lane));
      made.columns = static_cast<std::uint16_t>(ld_st_columns(form));
      made.lanes = static_cast<std::uint16_t>(ld_st_lanes(form));
    }
    tmem_ = made;
  }

  struct Store {
    const Warp* warp;
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
  // What was seen of the instruction being attempted.
  std::vector<EventLog::Access> accesses_;
  std::optional<EventLog::Barrier> barrier_;
  std::optional<EventLog::Tmem> tmem_;
  bool passes_ = false;
  std::uint32_t tested_ = 0;   // lanes
  std::vector<Store> stores_;  // without their wait so far
};

void check(const Stepper& stepper, const std::function<bool()>& interrupted) {
  Fault fault;
  fault.kernel = stepper.program().name;
  const std::uint64_t limit = stepper.launch().config.max_instructions;
  if (limit != 0 && stepper.now() > limit) {
    fault.kind = "livelock";
    fault.message = "the launch has executed " + std::to_string(stepper.now()) +
                    " warp-instructions, more than its limit of " + std::to_string(limit);
    const std::vector<Cluster*> running = stepper.clusters();
    fault.message +=
        describe_hot_loop(stepper.program(), stepper.executions(), {running.begin(), running.end()});
    throw LaunchFault(std::move(fault));
  }
  if (interrupted && interrupted()) {
    fault.kind = "interrupted";
    fault.message = "the launch was interrupted";
    throw LaunchFault(std::move(fault));
  }
}

}  // namespace

void record(Stepper& stepper, bool details, const std::function<bool()>& interrupted, EventLog& log) {
  Recorder recorder(stepper, log, details);
  for (std::uint32_t round = 1; !stepper.over(); ++round) {
    recorder.go_on();
    if (round % kPollRuns == 0) check(stepper, interrupted);
  }
}

LaunchReport record_launch(const Program& program, LaunchConfig config, bool details,
                           const std::function<bool()>& interrupted, EventLog& log) {
  const auto start = std::chrono::steady_clock::now();
  Stepper stepper(program, std::move(config));
  const Stepper::Running running(stepper);
  try {
    record(stepper, details, interrupted, log);
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
