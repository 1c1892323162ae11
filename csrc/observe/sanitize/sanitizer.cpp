#include "observe/sanitize/sanitizer.hpp"

#include <algorithm>
#include <utility>

#include "machine/async/engine.hpp"
#include "machine/engine/warning.hpp"
#include "machine/ops/operands.hpp"
#include "observe/record/accesses.hpp"
#include "observe/sanitize/async_op.hpp"
#include "observe/sanitize/barriers.hpp"
#include "observe/sanitize/deadlock.hpp"
#include "observe/sanitize/grids.hpp"
#include "observe/sanitize/joins.hpp"
#include "observe/sanitize/memory.hpp"
#include "observe/sanitize/races/detector.hpp"
#include "observe/sanitize/tensor.hpp"
#include "observe/sanitize/wgmma_registers.hpp"

namespace sglab::emu {
namespace {

// Whether observers learn of an instruction from itself. What an operation does, the engine says.
bool is_notified(Act act) {
  switch (act) {
    case Act::kNothing:
    case Act::kBranch:
    case Act::kBranchTable:
    case Act::kCall:
    case Act::kTrap:
    case Act::kParameter:
    case Act::kMbarrier:
    case Act::kIssue:
      return false;
    default:
      return true;
  }
}

// Operations are observed before their descriptors are followed: what leaves shared memory is a fault of the
// machine's, not a range for detectors.
void keep_inside(const Cluster& cluster, std::vector<Range>& ranges) {
  std::erase_if(ranges, [&](const Range& range) {
    return range.space == Space::kShared &&
           (rank_of(range.address) >= cluster.ctas.size() ||
            offset_of(range.address) + std::uint64_t{range.bytes} > cluster.shared_bytes);
  });
}

bool is_named_barrier(Act act) {
  return act == Act::kNamedArrive || act == Act::kNamedWait;
}

}  // namespace

Party party(const Actor& actor) {
  Party p;
  p.cta = linear_index(*actor.warp->cta);
  p.warp = actor.warp->index;
  p.lanes = actor.lanes;
  p.pc = actor.inst - actor.warp->code;
  p.position = actor.position;
  p.asynchronous = actor.operation != 0;
  return p;
}

Sanitizer::Sanitizer(Detectors detectors, std::shared_ptr<MarkedMemory> marked,
                     std::shared_ptr<GridHistory> grids, bool overlaps) {
  if (detectors.memory) {
    auto memory = std::make_unique<MemorySanitizer>(findings_, std::move(marked));
    memory_ = memory.get();
    detectors_.push_back(std::move(memory));
  }
  if (detectors.tensor) detectors_.push_back(std::make_unique<TensorSanitizer>(findings_));
  if (detectors.barriers) {
    auto barriers = std::make_unique<BarrierSanitizer>(findings_);
    barriers_ = barriers.get();
    detectors_.push_back(std::move(barriers));
  }
  if (detectors.races) {
    std::shared_ptr<const races::LaunchMemory> before;
    if (overlaps && grids != nullptr) before = grids->latest();
    detectors_.push_back(std::make_unique<races::RaceDetector>(findings_, grids));
    auto wgmma = std::make_unique<WgmmaRegisters>(findings_);
    wgmma_ = wgmma.get();
    detectors_.push_back(std::move(wgmma));
    if (before != nullptr)
      detectors_.push_back(std::make_unique<GridDependency>(findings_, std::move(before)));
  }
}
Sanitizer::~Sanitizer() = default;

void Sanitizer::launched(const Launch& launch) {
  launch_ = &launch;
  program_ = launch.program;
  findings_.clear(program_);
  clusters_.clear();
  held_index_ = ~std::uint64_t{0};
  thinned_ = false;
  followed_.all = false;
  followed_.count = 0;
  allocation_ = nullptr;
  all([&](Detector& d) { d.launched(launch); });
  joins_ = barriers_ == nullptr ? nullptr : &joins_of(*program_);
  const std::size_t count = program_->code.size();
  watch_.resize(count);
  followed_.instructions.resize(count);
  for (std::uint32_t pc = 0; pc < count; ++pc) {
    watch_[pc] = static_cast<std::uint8_t>((is_notified(program_->effects[pc].act) ? kEvents : 0) |
                                           (wgmma_ != nullptr && wgmma_->follows(pc) ? kWgmmaRegisters : 0) |
                                           (joins_ != nullptr && joins_->of[pc] != kNoIndex ? kParts : 0) |
                                           (joins_ != nullptr && joins_->is_join[pc] != 0 ? kMeets : 0));
    const bool heard = watch_[pc] != 0 || (memory_ != nullptr && memory_->may_follow(pc));
    // What is in the PTX text moves the launch's position.
    followed_.instructions[pc] = static_cast<std::uint8_t>(
        (heard ? Followed::kHeard : 0) | (program_->places[pc].line != 0 ? Followed::kCounted : 0));
  }
}

void Sanitizer::cluster_started(const Cluster& cluster) {
  held(cluster) = {};
  all([&](Detector& d) { d.cluster_started(cluster); });
}

void Sanitizer::cluster_finished(const Cluster& cluster) {
  all([&](Detector& d) { d.cluster_finished(cluster); });
  clusters_.erase(cluster.index);
  held_index_ = ~std::uint64_t{0};
  follow();
}

// Whether all instructions are heard of: where taint has spread, or lanes have exited.
void Sanitizer::follow() {
  followed_.all = (thinned_ && barriers_ != nullptr) || (memory_ != nullptr && memory_->follows_all());
}

void Sanitizer::attempting(const Warp& w, const Inst* inst) {
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  before_.watched = watch_[pc] != 0 || (memory_ != nullptr && memory_->follows(w, pc));
  if (!before_.watched) return;
  const Effects& effects = program_->effects[pc];
  before_.group = w.group_mask;
  before_.lanes = active_lanes(w, inst);
  before_.meeting = 0;
  if ((watch_[pc] & (kParts | kMeets)) != 0) part_or_meet(w, inst, pc);
  look(w, inst, effects, before_.lanes);
}

void Sanitizer::part_or_meet(const Warp& w, const Inst* inst, std::uint32_t pc) {
  const Actor actor{&w, inst, before_.group, position()};
  if ((watch_[pc] & kMeets) != 0) barriers_->meets(actor);
  const bool together = inst->guard != kNoGuard && (before_.lanes == 0 || before_.lanes == before_.group);
  if ((watch_[pc] & kParts) != 0 && !together) barriers_->parts(actor, joins_->of[pc]);
}

void Sanitizer::attempted(const Warp& w, const Inst* inst, const Inst* next) {
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  if (before_.watched) {
    const Effects& effects = program_->effects[pc];
    // Lanes that waited there for a .sync instruction have joined.
    const bool joined = next == inst + 1 && inst->guard == kNoGuard && before_.meeting == 0;
    const Actor actor{&w, inst, joined ? w.group_mask : before_.lanes, position()};
    const bool arrived = is_named_barrier(effects.act) && before_.arriving && w.groups[w.group].arrived;
    if (actor.lanes != 0 && (!w.retry || arrived)) notify(actor, effects);
    if (memory_ != nullptr && !w.retry && (memory_->follows(w, pc) || memory_->begins()))
      memory_->flow(actor, before_.group);
    if ((watch_[pc] & kWgmmaRegisters) != 0 && !w.retry && actor.lanes != 0) wgmma_->executed(actor);
  }
  if (thinned_ && barriers_ != nullptr && !w.retry) [[unlikely]]
    barriers_->executed({&w, inst, w.mask, position()});
  if (!w.retry && (followed_.instructions[pc] & Followed::kCounted) != 0) ++followed_.count;
  follow();
}

Actor Sanitizer::actor_of(const Cluster& cluster, const Issuer& issuer, std::uint32_t lanes) {
  if (lanes == 0 && issuer.lane >= 0) lanes = 1u << issuer.lane;
  const Warp& w = cluster.warps[issuer.warp];
  if (issuer.operation == 0) return {&w, issuer.inst, lanes, position()};
  Actor actor = held(cluster).operations.at(issuer.operation - 1);
  if (lanes != 0) actor.lanes = lanes;
  return actor;
}

void Sanitizer::issued(const Cluster& cluster, const AsyncOperation& operation) {
  const AsyncOp op = async_op(operation);
  const Issuer& issuer = operation.issuer;
  const Actor actor{&cluster.warps[issuer.warp], issuer.inst, operation.lanes, position(), op.id};
  std::vector<Actor>& known = held(cluster).operations;
  if (known.size() < op.id) known.resize(op.id, actor);  // of a wgmma, its first warp
  all([&](Detector& d) { d.issued(actor, op); });
}

void Sanitizer::performed(const Cluster& cluster, const AsyncOperation& operation) {
  const Actor actor = actor_of(cluster, operation.issuer, operation.lanes);
  const AsyncOp op = async_op(operation);
  footprint_ = footprint_of(cluster, operation, std::move(footprint_));
  keep_inside(cluster, footprint_.reads);
  keep_inside(cluster, footprint_.writes);
  all([&](Detector& d) { d.performed(actor, op, footprint_); });
}

void Sanitizer::mbarrier_changed(const Cluster& cluster, const MbarrierChange& change) {
  const auto& [issuer, lanes, address, use, status, word] = change;
  const Actor actor = actor_of(cluster, issuer, lanes);
  Held& known = held(cluster);
  auto place = known.phase_of(address);
  if (place == known.phases.end() || place->first != address)
    place = known.phases.insert(place, {address, 0});
  std::uint64_t& phase = place->second;
  if (use.op == MbarrierUse::Op::kInit && !is_misuse(status)) phase = 0;
  if (status == MbarrierStatus::kInitOfLiveObject) phase = 0;
  MbarrierEvent event{use, address, phase, status, Order::kRelease, Scope::kCta};
  if (issuer.operation == 0) {
    const Effects& effects = program_->effects[static_cast<std::size_t>(issuer.inst - actor.warp->code)];
    if (effects.act == Act::kMbarrier) event.order = effects.order, event.scope = effects.scope;
  }
  if (status == MbarrierStatus::kPhaseComplete) ++phase;
  all([&](Detector& d) { d.mbarrier(actor, event); });
}

Party Sanitizer::party(const WaitLink& link) const {
  const auto& grid = launch_->config.grid;
  Party p;
  p.cta = link.cta[0] + std::int64_t{grid[0]} * (link.cta[1] + std::int64_t{grid[1]} * link.cta[2]);
  p.warp = link.warp;
  p.lanes = link.lanes;
  p.pc = link.pc;
  p.position = position();
  return p;
}

void Sanitizer::warned(const Warp& w, const Inst* inst, const Warning& warning) {
  Finding finding;
  finding.detector = "launch";
  finding.kind = warning.kind;
  finding.message = warning.message;
  finding.error = false;
  finding.at = emu::party({&w, inst, warning.lanes, position()});
  findings_.add(std::move(finding));
}

// A fault is a finding, too; observers may know more about it.
void Sanitizer::failed(const Fault& fault) {
  if (fault.kind == "finding" || fault.kind == "interrupted" || fault.kind == "launch") return;
  Finding finding;
  finding.detector = "launch";
  finding.kind = fault.kind;
  finding.message = fault.message;
  if (fault.warp >= 0) {
    const auto& grid = launch_->config.grid;
    finding.at.cta =
        fault.cta[0] + std::int64_t{grid[0]} * (fault.cta[1] + std::int64_t{grid[1]} * fault.cta[2]);
    finding.at.warp = static_cast<std::uint32_t>(fault.warp);
    finding.at.lanes = fault.lane >= 0 ? 1u << fault.lane : 0;
    finding.at.pc = fault.pc;
  }
  if (!fault.cycle.empty()) {
    finding.message = "no warp can continue:" + describe(fault.cycle);
    const WaitLink& first = fault.cycle.front();
    finding.at = party(first);
    if (first.next > 0) {
      finding.other = party(fault.cycle[static_cast<std::size_t>(first.next)]);
      finding.other_did = "was to end the wait";
    }
  }
  finding.at.position = position();
  all([&](Detector& d) { d.explain(fault, finding); });
  findings_.add(std::move(finding));
}

}  // namespace sglab::emu
