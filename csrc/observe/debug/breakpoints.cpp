#include "observe/debug/breakpoints.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/memory/access.hpp"
#include "machine/sync/mbarrier.hpp"

namespace sglab::emu {

const Cta* find_cta(const Stepper& stepper, std::int64_t linear) {
  for (const Cluster* const cluster : stepper.clusters()) {
    for (const Cta& cta : cluster->ctas) {
      if (linear_index(cta) == linear) return &cta;
    }
  }
  return nullptr;
}

bool WarpFilter::passes(const Warp& w) const {
  return (warp < 0 || warp == w.index) && (cta < 0 || cta == linear_index(*w.cta));
}

namespace {

using Kind = Breakpoint::Kind;

bool only_in_front(const Breakpoint& b) {
  return b.kind == Kind::kCode || b.kind == Kind::kBarrierUse || b.kind == Kind::kMbarrierUse;
}

// Changes of memory that come from no store, so that the run cannot stop before them. They are no events:
// bytes are compared.
bool compares_bytes(const Breakpoint& b) {
  return b.kind == Kind::kTensorWatch || (b.kind == Kind::kWatch && b.watch.writes);
}

// Whether lanes about to execute a barrier instruction mean this barrier. The filter's CTA is the barrier's.
bool uses_barrier(const Breakpoint& b, const Warp& w, const Inst* inst) {
  const std::uint32_t lanes = active_lanes(w, inst);
  if (lanes == 0 || (b.filter.warp >= 0 && b.filter.warp != w.index)) return false;
  if (b.kind == Kind::kBarrierUse) {
    const auto* const number =
        reinterpret_cast<const std::uint32_t*>(w.bank[inst->a >> 31] + (inst->a & ~kConstantRef));
    return b.filter.cta == linear_index(*w.cta) && number[std::countr_zero(lanes)] == b.barrier;
  }
  std::uint64_t addresses[32];
  lane_addresses(w, inst, addresses);
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto address = static_cast<std::uint32_t>(addresses[std::countr_zero(m)]);
    const std::uint32_t rank = address >> kSharedRankShift;
    if (rank >= w.cluster->ctas.size() || (address & kSharedOffsetMask) != b.barrier) continue;
    if (linear_index(w.cluster->ctas[rank]) == b.filter.cta) return true;
  }
  return false;
}

}  // namespace

std::uint32_t Breakpoints::add(Breakpoint breakpoint) {
  breakpoint.id = next_id_++;
  all_.push_back(std::move(breakpoint));
  refresh();
  return all_.back().id;
}

bool Breakpoints::remove(std::uint32_t id) {
  const bool found = std::erase_if(all_, [&](const Breakpoint& b) { return b.id == id; }) != 0;
  refresh();
  return found;
}

void Breakpoints::refresh() {
  interesting_.assign(interesting_.size(), false);
  follows_bytes_ = false;
  for (const Breakpoint& b : all_) {
    follows_bytes_ = follows_bytes_ || compares_bytes(b);
    for (std::size_t pc = 0; pc < interesting_.size(); ++pc) {
      const bool watched = b.kind == Kind::kWatch &&
                           ((b.watch.reads && forms_[pc].reads) || (b.watch.writes && forms_[pc].writes));
      if (watched || (only_in_front(b) && b.code[pc])) interesting_[pc] = true;
    }
  }
}

bool Breakpoints::meets(const Breakpoint& b, const Warp& w, const Inst* inst) const {
  const auto pc = static_cast<std::size_t>(inst - w.code);
  if (b.kind == Kind::kCode) {
    if (!b.code[pc] || !b.filter.passes(w)) return false;
    return b.conditions.empty() ||
           lanes_where(b.conditions, w, static_cast<std::uint32_t>(pc), w.group_mask) != 0;
  }
  if (only_in_front(b)) return b.code[pc] && uses_barrier(b, w, inst);
  if (b.kind != Kind::kWatch) return false;
  const AccessForm& form = forms_[pc];
  if (!((b.watch.reads && form.reads) || (b.watch.writes && form.writes))) return false;
  const LaneAccess access = lane_access(w, inst, form, b.watch.space);
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1) {
    std::uint64_t address = access.address[std::countr_zero(m)];
    if (b.watch.space == Space::kShared) {
      const std::uint64_t rank = address >> kSharedRankShift;
      if (rank >= w.cluster->ctas.size() || linear_index(w.cluster->ctas[rank]) != b.filter.cta) continue;
      address &= kSharedOffsetMask;
    }
    if (address < b.watch.end && address + form.bytes > b.watch.begin) return true;
  }
  return false;
}

Breakpoints::Remembered Breakpoints::look(const Breakpoint& b, const Stepper& stepper) const {
  Remembered now;
  if (!compares_bytes(b)) return now;
  if (b.kind == Kind::kWatch && b.watch.space == Space::kGlobal) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(b.watch.begin);
    return {true, {bytes, bytes + (b.watch.end - b.watch.begin)}};
  }
  const Cta* const cta = find_cta(stepper, b.filter.cta);
  if (cta == nullptr) return now;
  now.known = true;
  if (b.kind == Kind::kWatch) {
    now.bytes.assign(cta->shared + b.watch.begin, cta->shared + b.watch.end);
    return now;
  }
  const auto& async = cta->cluster->async;
  now.known = async != nullptr && async->has_tmem(cta->rank);
  if (!now.known) return now;
  const TensorMemory& memory = async->tmem(cta->rank);
  const auto* const cells =
      reinterpret_cast<const std::uint8_t*>(memory.column(static_cast<std::uint32_t>(b.watch.begin)));
  now.bytes.assign(cells, cells + 4 * TensorMemory::kLanes * (b.watch.end - b.watch.begin));
  return now;
}

void Breakpoints::arm(const Stepper& stepper) {
  ended_ = 0;
  remembered_.clear();
  for (const Breakpoint& b : all_) remembered_.push_back(look(b, stepper));
}

void Breakpoints::phase_ended(Kind kind, const Cta& cta, std::uint32_t barrier) {
  for (const Breakpoint& b : all_) {
    if (ended_ != 0 && ended_ <= b.id) return;
    if (b.kind == kind && b.barrier == barrier && b.filter.cta == linear_index(cta)) ended_ = b.id;
  }
}

void Breakpoints::mbarrier_changed(const Cluster& cluster, const MbarrierChange& change) {
  if (change.status != MbarrierStatus::kPhaseComplete) return;
  const Cta& cta = cluster.ctas[change.address >> kSharedRankShift];
  phase_ended(Kind::kMbarrier, cta, change.address & kSharedOffsetMask);
}

void Breakpoints::barrier_completed(const Cta& cta, BarrierKind kind, std::uint32_t number, std::uint64_t) {
  if (kind == BarrierKind::kNamed) return phase_ended(Kind::kNamedBarrier, cta, number);
  // The cluster's barrier, whichever of its CTAs the breakpoint names.
  for (const Cta& own : cta.cluster->ctas) phase_ended(Kind::kClusterBarrier, own, number);
}

std::uint32_t Breakpoints::before(const Stepper& stepper, const Warp& w, const Warp& seen, const Inst* inst,
                                  std::uint32_t only) {
  if (!interesting_[static_cast<std::size_t>(inst - stepper.program().code.data())]) return 0;
  if (stepper.waiting(w, inst) != nullptr) return 0;  // it stopped here before its first attempt
  for (const Breakpoint& b : all_) {
    if ((only == 0 || only == b.id) && meets(b, seen, inst)) return b.id;
  }
  return 0;
}

std::uint32_t Breakpoints::after(const Stepper& stepper) {
  std::uint32_t id = std::exchange(ended_, 0);
  if (!follows_bytes_) return id;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const Breakpoint& b = all_[i];
    if (!compares_bytes(b)) continue;
    Remembered now = look(b, stepper);
    const Remembered& old = remembered_[i];
    const bool changed = old.known && now.known && old.bytes != now.bytes;
    // A store stopped the run before it was carried out.
    const Inst* const inst = stepper.last().inst;
    const bool announced = b.kind == Kind::kWatch && inst != nullptr &&
                           forms_[static_cast<std::size_t>(inst - stepper.program().code.data())].writes;
    if (changed && !announced && (id == 0 || b.id < id)) id = b.id;
    remembered_[i] = std::move(now);
  }
  return id;
}

}  // namespace sglab::emu
