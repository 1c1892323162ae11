#include "observe/record/look_ahead.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "isa/aperture.hpp"
#include "machine/memory/access.hpp"
#include "machine/ops/operands.hpp"
#include "machine/tensor/tmem_transfer.hpp"
#include "observe/record/coalescing.hpp"

namespace sglab::emu {
namespace {

Detail detail_of(const Effects& e) {
  switch (e.act) {
    case Act::kAccess:
      return e.space == Space::kLocal ? Detail::kNone : Detail::kAccess;
    case Act::kNamedArrive:
    case Act::kNamedWait:
      return Detail::kNamedBarrier;
    case Act::kClusterArrive:
    case Act::kClusterWait:
      return Detail::kClusterBarrier;
    case Act::kMbarrier:
    case Act::kMbarrierWait:
      return Detail::kMbarrier;
    case Act::kTmemAlloc:
      return Detail::kTmemAlloc;
    case Act::kTmemDealloc:
      return Detail::kTmemDealloc;
    case Act::kTmemLoad:
      return Detail::kTmemLoad;
    case Act::kTmemStore:
      return Detail::kTmemStore;
    case Act::kFence:
      return e.fence == FenceKind::kTcgenWaitStore ? Detail::kTmemWait : Detail::kNone;
    default:
      return Detail::kNone;
  }
}

bool waits(Act act) {
  return act == Act::kNamedWait || act == Act::kClusterWait || act == Act::kMbarrierWait;
}

// How far an allocation begins past a multiple of 512 bytes, where CUDA's begin: what a launch asks of the
// memories must not depend on where this process has it.
std::uint64_t misplaced(const Warp& w, std::uint64_t address) {
  constexpr std::uint64_t kAligned = 512;
  if (w.allocation_begin <= address && address < w.allocation_end) return w.allocation_begin % kAligned;
  const Allocation* const found = w.launch->find(address);
  return found == nullptr ? 0 : found->begin % kAligned;
}

void look_at_access(const Warp& w, const Inst* inst, const AccessForm& form, Space space, std::uint64_t event,
                    Seen& seen) {
  const LaneAccess access = lane_access(w, inst, form, space);
  if (access.lanes == 0) return;
  const Layout layout = layout_of(access, form.bytes);
  const auto lanes = static_cast<std::uint8_t>(std::popcount(access.lanes));
  std::uint64_t low = access.address[std::countr_zero(access.lanes)], high = low;
  if (layout == Layout::kRow) high += std::uint64_t{form.bytes} * (lanes - 1u);
  for (std::uint32_t m = layout == Layout::kOther ? access.lanes : 0; m != 0; m &= m - 1) {
    low = std::min(low, access.address[std::countr_zero(m)]);
    high = std::max(high, access.address[std::countr_zero(m)]);
  }
  const std::uint64_t span = std::min<std::uint64_t>(high - low + form.bytes, 0xffffffffu);
  const bool global = space != Space::kShared;
  const std::uint64_t shift = global ? misplaced(w, low) : 0;
  seen.accesses.push_back({event, low, static_cast<std::uint32_t>(span),
                           static_cast<std::uint32_t>(lanes) * form.bytes, lanes,
                           static_cast<std::uint8_t>(space == Space::kShared),
                           static_cast<std::uint8_t>((form.reads ? 1 : 0) | (form.writes ? 2 : 0)),
                           global ? pieces(access, layout, span, form.bytes, 32, shift) : std::uint8_t{0},
                           global ? pieces(access, layout, span, form.bytes, 128, shift) : std::uint8_t{0},
                           global ? std::uint8_t{0} : wavefronts(access, layout, form)});
}

// Lanes that arrive may name several, of several CTAs; what waits is taken for a wait at the first lane's.
void look_at_mbarriers(const Warp& w, const Inst* inst, std::uint32_t lanes, EventLog::Barrier made,
                       Seen& seen) {
  std::uint64_t addresses[32];
  lane_addresses(w, inst, addresses);
  made.kind = static_cast<std::uint8_t>(BarrierKind::kMbarrier);
  if (seen.passes) lanes &= -lanes;
  for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
    made.object = static_cast<std::uint32_t>(addresses[std::countr_zero(left)]);
    const auto same = [&](const EventLog::Barrier& other) { return other.object == made.object; };
    if (std::ranges::any_of(seen.barriers, same)) continue;
    const std::uint32_t rank = made.object >> kSharedRankShift, offset = made.object & kSharedOffsetMask;
    if (rank >= w.cluster->ctas.size() || offset + 8 > w.cluster->shared_bytes) continue;
    std::uint64_t word;
    std::memcpy(&word, w.cluster->ctas[rank].shared + offset, sizeof word);
    made.phase = word >> 63;
    seen.barriers.push_back(made);
  }
}

void look_at_barrier(const Warp& w, const Inst* inst, Detail detail, std::uint64_t event, Seen& seen) {
  const std::uint32_t lanes = active_lanes(w, inst);
  if (lanes == 0) return;
  const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
  EventLog::Barrier made{event, 0, -1, 0, static_cast<std::uint8_t>(BarrierKind::kNamed)};
  seen.passes = waits(w.program->effects[static_cast<std::size_t>(inst - w.code)].act);
  seen.lanes = lanes;
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
    look_at_mbarriers(w, inst, lanes, made, seen);
    return;
  }
  seen.barriers.push_back(made);
}

void look_at_tensor_memory(const Warp& w, const Inst* inst, Detail detail, std::uint64_t event, Seen& seen) {
  if (detail == Detail::kTmemWait) return;
  const std::uint32_t lanes = active_lanes(w, inst);
  if (lanes == 0) return;
  const int lane = first_lane(lanes);
  EventLog::Tmem made{};
  made.event = event;
  made.done = -1;
  made.cta_group = 1;
  if (detail == Detail::kTmemAlloc || detail == Detail::kTmemDealloc) {
    made.kind = detail == Detail::kTmemAlloc ? EventLog::Tmem::kAlloc : EventLog::Tmem::kDealloc;
    made.cta_group = static_cast<std::uint8_t>(inst->target);
    made.columns = static_cast<std::uint16_t>(lanes32(w, inst->b)[lane]);
    made.lanes = TensorMemory::kLanes;
    if (detail == Detail::kTmemDealloc) made.address = lanes32(w, inst->a)[lane];
  } else {
    const auto& form = payload<LdStForm>(inst);
    made.kind = detail == Detail::kTmemLoad ? EventLog::Tmem::kLoad : EventLog::Tmem::kStore;
    made.address = static_cast<std::uint32_t>(address_of(w, main_address(inst), lane));
    made.columns = static_cast<std::uint16_t>(ld_st_columns(form));
    made.lanes = static_cast<std::uint16_t>(ld_st_lanes(form));
  }
  seen.tmem = made;
}

}  // namespace

std::vector<Detail> details_of(const Program& program) {
  std::vector<Detail> details;
  details.reserve(program.effects.size());
  for (const Effects& e : program.effects) details.push_back(detail_of(e));
  return details;
}

void look_ahead(const Warp& w, const Inst* inst, const AccessForm& form, Detail detail, std::uint64_t event,
                Seen& seen) {
  seen.accesses.clear();
  seen.barriers.clear();
  seen.tmem.reset();
  if (detail == Detail::kAccess) {
    look_at_access(w, inst, form, Space::kGlobal, event, seen);
    look_at_access(w, inst, form, Space::kShared, event, seen);
  } else if (detail <= Detail::kClusterBarrier) {
    look_at_barrier(w, inst, detail, event, seen);
  } else {
    look_at_tensor_memory(w, inst, detail, event, seen);
  }
}

std::uint32_t allocated_address(const Warp& w, const Inst* inst) {
  const auto at = static_cast<std::uint32_t>(address_of(w, main_address(inst), first_lane(w.group_mask)));
  std::uint32_t address;
  std::memcpy(&address, w.cta->shared + (at & kSharedOffsetMask), sizeof address);
  return address;
}

}  // namespace sglab::emu
