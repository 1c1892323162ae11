#include <cstring>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/memory/access.hpp"
#include "machine/ops/operands.hpp"
#include "machine/tensor/tmem_transfer.hpp"
#include "observe/record/accesses.hpp"
#include "observe/sanitize/sanitizer.hpp"

// What an instruction does, for detectors: its operands are read before it is executed, its events come
// after.
namespace sglab::emu {
namespace {

using Kind = Meaning::Kind;

constexpr std::uint32_t kMapBytes = 128;

std::uint64_t without_aperture(std::uint64_t address) {
  return address & ~kApertureMask;
}

Space space_of_address(std::uint64_t address) {
  switch (address & kApertureMask) {
    case 0:
      return Space::kGlobal;
    case kSharedAperture:
      return Space::kShared;
    case kLocalAperture:
      return Space::kLocal;
    default:
      return Space::kParam;
  }
}

}  // namespace

void Sanitizer::look(const Warp& w, const Inst* inst, const Meaning& m, std::uint32_t lanes) {
  switch (m.kind) {
    case Kind::kAccess:
    case Kind::kMatrixRows:
    case Kind::kMbarrierWait:
    case Kind::kReplaceMap:
      return lane_addresses(w, inst, before_.address);
    case Kind::kNamedBarrier:
    case Kind::kClusterArrive:
    case Kind::kClusterWait:
      if (lanes != 0) look_at_barrier(w, inst);
      return;
    case Kind::kAlloc:
      lane_addresses(w, inst, before_.address);
      return look_at_tmem(w, inst, m, lanes);
    case Kind::kRelinquish:
      before_.tmem = {w.cta->rank, 0, 0, 0, 0};
      return;
    case Kind::kDealloc:
    case Kind::kTmemLoad:
    case Kind::kTmemStore:
      return look_at_tmem(w, inst, m, lanes);
    case Kind::kCopyMap:
      for (int lane = 0; lane < 32; ++lane) {
        before_.address[lane] = address_of(w, extra_address(inst, 0, 0), lane);
        before_.second[lane] = address_of(w, extra_address(inst, 1, 2), lane);
      }
      return;
    case Kind::kUseMap:
      for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
        before_.address[first_lane(rest)] = address_of(w, extra_address(inst, 0, 0), first_lane(rest));
      return;
    case Kind::kFence:
      if (m.reads) lane_addresses(w, inst, before_.address);
      return;
    case Kind::kExit:
      before_.live = w.live;
      return;
    default:
      return;
  }
}

void Sanitizer::look_at_barrier(const Warp& w, const Inst* inst) {
  const Meaning& m = meanings_[static_cast<std::size_t>(inst - w.code)];
  if (m.kind != Kind::kNamedBarrier) {
    before_.arriving = m.kind == Kind::kClusterArrive;
    before_.number = kClusterBarrierNumber;
    before_.threads = 0;
    before_.phase = before_.arriving ? w.cluster->barrier.phase : w.cluster_ticket;
    return;
  }
  const Group& g = w.groups[w.group];
  before_.arriving = !g.arrived;
  if (g.arrived) {
    before_.number = static_cast<std::uint32_t>(g.key);
    before_.phase = g.ticket;
    return;
  }
  const int lane = first_lane(active_lanes(w, inst));
  before_.number = lanes32(w, inst->a)[lane];
  before_.threads = (inst->imm & 1) != 0 ? 0 : lanes32(w, inst->b)[lane];
  before_.phase = before_.number < w.cta->barriers.size() ? w.cta->barriers[before_.number].phase : 0;
}

void Sanitizer::look_at_tmem(const Warp& w, const Inst* inst, const Meaning& m, std::uint32_t lanes) {
  if (lanes == 0) return;
  const int lane = first_lane(lanes);
  TmemRange& range = before_.tmem;
  range.rank = w.cta->rank;
  if (m.kind == Kind::kAlloc || m.kind == Kind::kDealloc) {
    range = {w.cta->rank, 0, TensorMemory::kLanes, 0, lanes32(w, inst->b)[lane]};
    if (m.kind == Kind::kDealloc) range.column = TmemAddress::decode(lanes32(w, inst->a)[lane]).column;
    return;
  }
  const std::int64_t* v = inst->extra->values.data();
  const LdStForm form{static_cast<LdStShape>(v[0]), static_cast<int>(v[1]), v[2] != 0,
                      static_cast<int>(v[3])};
  const TmemAddress at =
      TmemAddress::decode(static_cast<std::uint32_t>(address_of(w, main_address(inst), lane)));
  range = {w.cta->rank, at.lane, static_cast<std::uint32_t>(ld_st_lanes(form)), at.column,
           static_cast<std::uint32_t>(ld_st_columns(form))};
}

void Sanitizer::tell(const Actor& actor, const Meaning& m) {
  const Warp& w = *actor.warp;
  switch (m.kind) {
    case Kind::kPlain:
      break;
    case Kind::kAccess:
    case Kind::kMatrixRows:
      tell_access(actor, m);
      break;
    case Kind::kFence: {
      const Fence fence{m.fence, m.order, m.scope, m.space, m.reads ? before_.address : nullptr};
      all([&](Detector& d) { d.fenced(actor, fence); });
      break;
    }
    case Kind::kNamedBarrier:
    case Kind::kClusterArrive:
    case Kind::kClusterWait: {
      const BarrierUse use{before_.number, before_.threads, before_.phase,
                           m.kind == Kind::kClusterArrive ? m.order : Order::kAcqRel};
      if (before_.arriving) all([&](Detector& d) { d.arrived(actor, use); });
      if ((m.waits || m.kind == Kind::kClusterWait) && !w.retry)
        all([&](Detector& d) { d.passed(actor, use); });
      break;
    }
    case Kind::kMbarrierWait:
      tell_mbarrier_wait(actor, m);
      break;
    case Kind::kCommitGroup:
      all([&](Detector& d) { d.committed(actor, m.group); });
      break;
    case Kind::kWaitGroup: {
      const auto pending = static_cast<std::uint32_t>(actor.inst->imm);
      all([&](Detector& d) { d.waited(actor, m.group, pending, m.waits); });
      break;
    }
    case Kind::kAlloc:
    case Kind::kDealloc:
    case Kind::kRelinquish:
    case Kind::kTmemLoad:
    case Kind::kTmemStore:
      tell_tmem(actor, m);
      break;
    case Kind::kReplaceMap:
    case Kind::kCopyMap:
      tell_maps(actor, m);
      break;
    case Kind::kUseMap:
      tell_map_use(actor);
      break;
    case Kind::kWarpSync:
      all([&](Detector& d) { d.warp_synced(actor, m.waits); });
      break;
    case Kind::kExit: {
      Actor gone = actor;
      gone.lanes = before_.live & ~w.live;
      if (gone.lanes != 0) all([&](Detector& d) { d.exited(gone); });
      break;
    }
  }
}

void Sanitizer::tell_one_access(const Actor& actor, Space space, const std::uint64_t* address,
                                std::uint32_t lanes, std::uint32_t bytes, bool reads, bool writes) {
  if (lanes == 0) return;
  const Meaning& m = meanings_[static_cast<std::size_t>(actor.inst - actor.warp->code)];
  const Access access{space, reads, writes, m.atomic, m.order, m.scope, lanes, bytes, address};
  all([&](Detector& d) { d.accessed(actor, access); });
}

void Sanitizer::tell_access(const Actor& actor, const Meaning& m) {
  if (m.kind == Kind::kMatrixRows) {
    const std::uint32_t rows = m.rows >= 32 ? 0xffffffffu : (1u << m.rows) - 1;
    for (std::uint64_t& address : before_.address) address = without_aperture(address);
    return tell_one_access(actor, m.space, before_.address, rows, m.bytes, m.reads, m.writes);
  }
  if (m.space != Space::kGeneric)
    return tell_one_access(actor, m.space, before_.address, actor.lanes, m.bytes, m.reads, m.writes);
  for (const Space space : {Space::kGlobal, Space::kShared, Space::kLocal}) {
    std::uint32_t lanes = 0;
    for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
      const int lane = first_lane(rest);
      if (space_of_address(before_.address[lane]) != space) continue;
      before_.second[lane] = without_aperture(before_.address[lane]);
      lanes |= 1u << lane;
    }
    tell_one_access(actor, space, before_.second, lanes, m.bytes, m.reads, m.writes);
  }
}

// tensormap.replace and tensormap.cp_fenceproxy.
void Sanitizer::tell_maps(const Actor& actor, const Meaning& m) {
  const std::uint32_t first = actor.lanes & (0u - actor.lanes);
  const std::uint32_t lanes = m.kind == Kind::kCopyMap ? first : actor.lanes;
  const std::uint64_t at = before_.address[first_lane(first) & 31];
  const bool in_shared = m.kind == Kind::kReplaceMap &&
                         (actor.inst->target != 0 || at >> 32 == 0 || space_of_address(at) == Space::kShared);
  const Space space = in_shared ? Space::kShared : Space::kGlobal;
  for (std::uint64_t& address : before_.address) address = without_aperture(address);
  if (m.kind == Kind::kCopyMap) {
    for (std::uint64_t& address : before_.second) address = without_aperture(address);
    tell_one_access(actor, Space::kShared, before_.second, lanes, kMapBytes, true, false);
  }
  if (at >> 56 == kParamAperture >> 56) return;
  tell_one_access(actor, space, before_.address, lanes, kMapBytes, m.kind == Kind::kReplaceMap, true);
  if (m.kind != Kind::kCopyMap) return;
  const Fence fence{Fence::Kind::kProxyTensormap, Order::kRelease, Scope::kGpu, Space::kGlobal};
  all([&](Detector& d) { d.fenced(actor, fence); });
}

void Sanitizer::tell_map_use(const Actor& actor) {
  Access access{Space::kGlobal, true, false, false, Order::kWeak, Scope::kGpu, 0, kMapBytes, before_.address};
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    if (space_of_address(before_.address[lane]) == Space::kGlobal) access.lanes |= 1u << lane;
  }
  if (access.lanes != 0) all([&](Detector& d) { d.map_used(actor, access); });
}

void Sanitizer::tell_mbarrier_wait(const Actor& actor, const Meaning& m) {
  const Warp& w = *actor.warp;
  const auto& phases = held(*w.cluster).phases;
  for (std::uint64_t& address : before_.address) address = without_aperture(address);
  std::uint32_t rest = actor.lanes & w.predicates[actor.inst->d];
  while (rest != 0) {
    const auto address = static_cast<std::uint32_t>(before_.address[first_lane(rest) & 31]);
    Actor some = actor;
    some.lanes = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if (before_.address[lane] == address) some.lanes |= rest & 1u << lane;
    }
    rest &= ~some.lanes;
    const auto known = phases.find(address);
    const std::int64_t phase = known == phases.end() ? -1 : static_cast<std::int64_t>(known->second) - 1;
    const MbarrierWait wait{address, phase, m.order, m.scope};
    all([&](Detector& d) { d.mbarrier_passed(some, wait); });
  }
}

void Sanitizer::tell_tmem(const Actor& actor, const Meaning& m) {
  const Warp& w = *actor.warp;
  constexpr std::pair<Kind, TmemUse::Op> kOps[] = {{Kind::kAlloc, TmemUse::Op::kAlloc},
                                                   {Kind::kDealloc, TmemUse::Op::kDealloc},
                                                   {Kind::kRelinquish, TmemUse::Op::kRelinquish},
                                                   {Kind::kTmemLoad, TmemUse::Op::kLoad},
                                                   {Kind::kTmemStore, TmemUse::Op::kStore}};
  TmemUse use{TmemUse::Op::kAlloc, before_.tmem};
  for (const auto& [kind, op] : kOps) {
    if (kind == m.kind) use.op = op;
  }
  if (m.kind == Kind::kAlloc) {
    for (std::uint64_t& address : before_.address) address = without_aperture(address);
    const std::uint32_t first = actor.lanes & (0u - actor.lanes);
    const auto place = static_cast<std::uint32_t>(before_.address[first_lane(first)]);
    std::uint32_t value;
    std::memcpy(&value, w.cluster->ctas[place >> kSharedRankShift].shared + (place & kSharedOffsetMask), 4);
    use.range.column = TmemAddress::decode(value).column;
    tell_one_access(actor, Space::kShared, before_.address, first, 4, false, true);
  }
  all([&](Detector& d) { d.tensor_memory(actor, use); });
}

}  // namespace sglab::emu
