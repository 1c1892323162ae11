#include "observe/debug/breakpoints.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "machine/async/engine.hpp"
#include "machine/memory/access.hpp"
#include "machine/memory/aperture.hpp"

namespace sglab::emu {

std::int64_t linear_index(const Cta& cta) {
  const auto& grid = cta.cluster->launch->config.grid;
  return cta.index[0] + std::int64_t{grid[0]} * (cta.index[1] + std::int64_t{grid[1]} * cta.index[2]);
}

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

bool only_in_front(const Breakpoint& b) {
  using Kind = Breakpoint::Kind;
  return b.kind == Kind::kCode || b.kind == Kind::kBarrierUse || b.kind == Kind::kMbarrierUse;
}

// Whether lanes about to execute a barrier instruction mean this barrier. The filter's CTA is the barrier's.
bool uses_barrier(const Breakpoint& b, const Warp& w, const Inst* inst) {
  const std::uint32_t lanes = active_lanes(w, inst);
  if (lanes == 0 || (b.filter.warp >= 0 && b.filter.warp != w.index)) return false;
  if (b.kind == Breakpoint::Kind::kBarrierUse) {
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
  looks_after_ = false;
  for (const Breakpoint& b : all_) {
    looks_after_ = looks_after_ || !only_in_front(b);
    for (std::size_t pc = 0; pc < interesting_.size(); ++pc) {
      const bool watched = b.kind == Breakpoint::Kind::kWatch &&
                           ((b.watch.reads && forms_[pc].reads) || (b.watch.writes && forms_[pc].writes));
      if (watched || (only_in_front(b) && b.code[pc])) interesting_[pc] = true;
    }
  }
}

bool Breakpoints::meets(const Breakpoint& b, const Warp& w, const Inst* inst) const {
  const auto pc = static_cast<std::size_t>(inst - w.code);
  if (b.kind == Breakpoint::Kind::kCode) return b.code[pc] && b.filter.passes(w);
  if (only_in_front(b)) return b.code[pc] && uses_barrier(b, w, inst);
  if (b.kind != Breakpoint::Kind::kWatch) return false;
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
  if (b.kind == Breakpoint::Kind::kWatch && b.watch.space == Space::kGlobal) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(b.watch.begin);
    return {0, true, {bytes, bytes + (b.watch.end - b.watch.begin)}};
  }
  if (only_in_front(b)) return now;
  const Cta* const cta = find_cta(stepper, b.filter.cta);
  if (cta == nullptr) return now;
  now.known = true;
  if (b.kind == Breakpoint::Kind::kTensorWatch) {
    const auto& async = cta->cluster->async;
    now.known = async != nullptr && async->has_tmem(cta->rank);
    if (!now.known) return now;
    const TensorMemory& memory = async->tmem(cta->rank);
    const auto* const cells =
        reinterpret_cast<const std::uint8_t*>(memory.column(static_cast<std::uint32_t>(b.watch.begin)));
    now.bytes.assign(cells, cells + 4 * TensorMemory::kLanes * (b.watch.end - b.watch.begin));
    return now;
  }
  if (b.kind == Breakpoint::Kind::kNamedBarrier) {
    now.phase = cta->barriers[b.barrier].phase;
  } else if (b.kind == Breakpoint::Kind::kClusterBarrier) {
    now.phase = cta->cluster->barrier.phase;
  } else if (b.kind == Breakpoint::Kind::kMbarrier) {
    std::uint64_t word;
    std::memcpy(&word, cta->shared + b.barrier, sizeof word);
    now.phase = word >> 63;
  } else {
    now.bytes.assign(cta->shared + b.watch.begin, cta->shared + b.watch.end);
  }
  return now;
}

void Breakpoints::arm(const Stepper& stepper) {
  remembered_.clear();
  for (const Breakpoint& b : all_) remembered_.push_back(look(b, stepper));
}

std::uint32_t Breakpoints::before(const Stepper& stepper, const Warp& w, const Warp& seen, const Inst* inst) {
  if (!interesting_[static_cast<std::size_t>(inst - stepper.program().code.data())]) return 0;
  if (stepper.waiting(w, inst) != nullptr) return 0;  // it stopped here before its first attempt
  for (const Breakpoint& b : all_) {
    if (meets(b, seen, inst)) return b.id;
  }
  return 0;
}

std::uint32_t Breakpoints::after(const Stepper& stepper) {
  if (!looks_after_) return 0;
  std::uint32_t id = 0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const Breakpoint& b = all_[i];
    if (only_in_front(b) || (b.kind == Breakpoint::Kind::kWatch && !b.watch.writes)) continue;
    Remembered now = look(b, stepper);
    const Remembered& old = remembered_[i];
    const bool changed = old.known && now.known && (old.phase != now.phase || old.bytes != now.bytes);
    // A store stopped the run before it was carried out.
    const Inst* const inst = stepper.last().inst;
    const bool announced = b.kind == Breakpoint::Kind::kWatch && inst != nullptr &&
                           forms_[static_cast<std::size_t>(inst - stepper.program().code.data())].writes;
    if (changed && !announced && id == 0) id = b.id;
    remembered_[i] = std::move(now);
  }
  return id;
}

}  // namespace sglab::emu
