#include <algorithm>
#include <cstring>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/memory/access.hpp"
#include "machine/ops/members.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_map_access.hpp"
#include "machine/ops/wmma_operands.hpp"
#include "machine/tensor/tmem_transfer.hpp"
#include "observe/record/accesses.hpp"
#include "observe/sanitize/sanitizer.hpp"

// What an instruction does, for detectors: its operands are read before it is executed, its events come
// after.
namespace sglab::emu {
namespace {

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

void Sanitizer::look(const Warp& w, const Inst* inst, const Effects& m, std::uint32_t lanes) {
  switch (m.act) {
    case Act::kAccess:
    case Act::kMatrixRows:
    case Act::kMbarrierWait:
    case Act::kReplaceMap:
      return lane_addresses(w, inst, before_.address);
    case Act::kMatrixTile:
      lane_addresses(w, inst, before_.address);
      before_.second[0] = tile_stride(w, inst, payload<MoveOperands>(inst));
      return;
    case Act::kClear:
      lane_addresses(w, inst, before_.address);
      std::copy_n(lanes64(w, inst->b), 32, before_.second);
      return;
    case Act::kNamedArrive:
    case Act::kNamedWait:
    case Act::kClusterArrive:
    case Act::kClusterWait:
      if (lanes != 0) look_at_barrier(w, inst);
      return;
    case Act::kTmemAlloc:
      lane_addresses(w, inst, before_.address);
      return look_at_tmem(w, inst, m, lanes);
    case Act::kTmemRelinquish:
      before_.tmem = {w.cta->rank, 0, 0, 0, 0};
      return;
    case Act::kTmemDealloc:
    case Act::kTmemLoad:
    case Act::kTmemStore:
      return look_at_tmem(w, inst, m, lanes);
    case Act::kCopyMap:
      addresses_of(w, extra_address(inst, payload<MapCopyOperands>(inst).target), before_.address);
      return addresses_of(w, extra_address(inst, payload<MapCopyOperands>(inst).source), before_.second);
    case Act::kIssueByMap:
      for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
        before_.address[first_lane(rest)] =
            address_of(w, extra_address(inst, *inst->extra->map), first_lane(rest));
      return;
    case Act::kFence:
      if (m.reads) lane_addresses(w, inst, before_.address);
      return;
    case Act::kExit:
      before_.live = w.live;
      return;
    default:
      return;
  }
}

void Sanitizer::look_at_barrier(const Warp& w, const Inst* inst) {
  const Effects& m = program_->effects[static_cast<std::size_t>(inst - w.code)];
  if (m.act != Act::kNamedArrive && m.act != Act::kNamedWait) {
    before_.arriving = m.act == Act::kClusterArrive;
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

void Sanitizer::look_at_tmem(const Warp& w, const Inst* inst, const Effects& m, std::uint32_t lanes) {
  if (lanes == 0) return;
  const int lane = first_lane(lanes);
  TmemRange& range = before_.tmem;
  range.rank = w.cta->rank;
  if (m.act == Act::kTmemAlloc || m.act == Act::kTmemDealloc) {
    range = {w.cta->rank, 0, TensorMemory::kLanes, 0, lanes32(w, inst->b)[lane]};
    if (m.act == Act::kTmemDealloc) range.column = TmemAddress::decode(lanes32(w, inst->a)[lane]).column;
    return;
  }
  const auto& form = payload<LdStForm>(inst);
  const auto named = static_cast<std::uint32_t>(address_of(w, main_address(inst), lane));
  const TmemAddress at = in_own_quarter(form, TmemAddress::decode(named), w.index);
  range = {w.cta->rank, at.lane, static_cast<std::uint32_t>(ld_st_lanes(form)), at.column,
           static_cast<std::uint32_t>(ld_st_columns(form))};
}

void Sanitizer::notify(const Actor& actor, const Effects& m) {
  const Warp& w = *actor.warp;
  switch (m.act) {
    case Act::kAccess:
    case Act::kMatrixRows:
      tell_access(actor, m);
      break;
    case Act::kMatrixTile:
      tell_tile(actor, m);
      break;
    case Act::kClear:
      tell_clear(actor);
      break;
    case Act::kFence: {
      const Fence fence{m.fence, m.order, m.scope, m.space, m.reads ? before_.address : nullptr};
      all([&](Detector& d) { d.fenced(actor, fence); });
      break;
    }
    case Act::kNamedArrive:
    case Act::kNamedWait:
    case Act::kClusterArrive:
    case Act::kClusterWait: {
      const BarrierUse use{before_.number, before_.threads, before_.phase,
                           m.act == Act::kClusterArrive ? m.order : Order::kAcqRel};
      if (before_.arriving) all([&](Detector& d) { d.arrived(actor, use); });
      if ((m.act == Act::kNamedWait || m.act == Act::kClusterWait) && !w.retry)
        all([&](Detector& d) { d.passed(actor, use); });
      break;
    }
    case Act::kMbarrierWait:
      tell_mbarrier_wait(actor, m);
      break;
    case Act::kCommitGroup:
      all([&](Detector& d) { d.committed(actor, m.group); });
      break;
    case Act::kWaitGroup: {
      const auto pending = static_cast<std::uint32_t>(actor.inst->imm);
      all([&](Detector& d) { d.waited(actor, m.group, pending, m.read_only); });
      break;
    }
    case Act::kTmemAlloc:
    case Act::kTmemDealloc:
    case Act::kTmemRelinquish:
    case Act::kTmemLoad:
    case Act::kTmemStore:
      tell_tmem(actor, m);
      break;
    case Act::kReplaceMap:
    case Act::kCopyMap:
      tell_maps(actor, m);
      break;
    case Act::kIssueByMap:
      tell_map_use(actor);
      break;
    case Act::kWarpSync:
      for (std::uint32_t rest = actor.lanes; rest != 0;) {
        const std::uint32_t members = lanes32(w, actor.inst->a)[first_lane(rest)];
        const Actor set{actor.warp, actor.inst, naming(w, actor.inst->a, rest, members), actor.position};
        all([&](Detector& d) { d.warp_synced(set, true); });
        rest &= ~set.lanes;
      }
      break;
    case Act::kWarpExchange:
      all([&](Detector& d) { d.warp_synced(actor, false); });
      break;
    case Act::kExit: {
      Actor gone = actor;
      gone.lanes = before_.live & ~w.live;
      if (gone.lanes != 0) all([&](Detector& d) { d.exited(gone); });
      break;
    }
    default:
      break;
  }
}

// The lanes whose bytes lie where detectors can follow them, whatever a wrong kernel makes of its operands.
std::uint32_t Sanitizer::inside(const Warp& w, Space space, const std::uint64_t* address, std::uint32_t lanes,
                                std::uint32_t bytes) {
  std::uint64_t low = ~std::uint64_t{0}, high = 0;
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const std::uint64_t at = address[first_lane(rest)];
    low = std::min(low, at);
    high = std::max(high, at);
  }
  // Mostly all of them lie in one stretch.
  const auto holds = [&](std::uint64_t begin, std::uint64_t end) {
    return low >= begin && high <= end && bytes <= end - high;
  };
  if (space == Space::kShared && holds(w.cta->window, std::uint64_t{w.cta->window} + w.cluster->shared_bytes))
    return lanes;
  if (space == Space::kGlobal && allocation_ != nullptr && holds(allocation_->begin, allocation_->end))
    return lanes;
  const auto fits = [&](std::uint64_t at, std::uint64_t limit) { return at <= limit && bytes <= limit - at; };
  std::uint32_t found = 0;
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    const std::uint64_t at = address[lane];
    bool good = true;
    if (space == Space::kShared) {
      good = at >> kSharedRankShift < w.cluster->ctas.size() && fits(offset_of(at), w.cluster->shared_bytes);
    } else if (space == Space::kLocal) {
      good = fits(at, w.program->local_bytes);
    } else if (space == Space::kGlobal) {
      allocation_ = launch_->find(at, bytes);
      good = allocation_ != nullptr;
    }
    found |= good ? 1u << lane : 0u;
  }
  return found;
}

void Sanitizer::tell_one_access(const Actor& actor, Space space, const std::uint64_t* address,
                                std::uint32_t lanes, std::uint32_t bytes, bool reads, bool writes) {
  lanes = inside(*actor.warp, space, address, lanes, bytes);
  if (lanes == 0) return;
  const Effects& m = program_->effects[static_cast<std::size_t>(actor.inst - actor.warp->code)];
  const Order order = m.act == Act::kAccess ? m.order : Order::kWeak;
  const Access access{space,   reads, writes, m.atomic, order,
                      m.scope, lanes, bytes,  address,  m.act == Act::kTmemAlloc};
  all([&](Detector& d) { d.accessed(actor, access); });
}

void Sanitizer::tell_access(const Actor& actor, const Effects& m) {
  if (m.act == Act::kMatrixRows) {
    const std::uint32_t rows = m.rows >= 32 ? 0xffffffffu : (1u << m.rows) - 1;
    for (std::uint64_t& address : before_.address) address = without_aperture(address);
    return tell_one_access(actor, m.space, before_.address, rows, m.bytes, m.reads, m.writes);
  }
  if (m.space != Space::kGeneric)
    return tell_one_access(actor, m.space, before_.address, actor.lanes, m.bytes, m.reads, m.writes);
  tell_by_aperture(actor, before_.address, actor.lanes, m.bytes, m.reads, m.writes);
}

void Sanitizer::tell_by_aperture(const Actor& actor, const std::uint64_t* address, std::uint32_t lanes,
                                 std::uint32_t bytes, bool reads, bool writes) {
  std::uint64_t plain[32];
  for (const Space space : {Space::kGlobal, Space::kShared, Space::kLocal}) {
    std::uint32_t found = 0;
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const int lane = first_lane(rest);
      if (space_of_address(address[lane]) != space) continue;
      plain[lane] = without_aperture(address[lane]);
      found |= 1u << lane;
    }
    tell_one_access(actor, space, plain, found, bytes, reads, writes);
  }
}

// Each lane's elements, one after the other.
void Sanitizer::tell_tile(const Actor& actor, const Effects& m) {
  const auto& move = payload<MoveOperands>(actor.inst);
  const auto bytes = static_cast<std::uint32_t>(move.fragment.bytes);
  std::uint64_t addresses[32];
  for (int slot = 0; slot < move.fragment.per_lane(); ++slot) {
    tile_addresses(move, before_.address[0], before_.second[0], slot, addresses);
    if (move.space == Space::kGeneric) {
      tell_by_aperture(actor, addresses, actor.lanes, bytes, m.reads, m.writes);
      continue;
    }
    for (std::uint64_t& address : addresses) address = without_aperture(address);
    tell_one_access(actor, move.space, addresses, actor.lanes, bytes, m.reads, m.writes);
  }
}

void Sanitizer::tell_clear(const Actor& actor) {
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    if (before_.second[lane] == 0) continue;
    before_.address[lane] = without_aperture(before_.address[lane]);
    tell_one_access(actor, Space::kShared, before_.address, 1u << lane,
                    static_cast<std::uint32_t>(before_.second[lane]), false, true);
  }
}

// tensormap.replace and tensormap.cp_fenceproxy.
void Sanitizer::tell_maps(const Actor& actor, const Effects& m) {
  const std::uint32_t first = actor.lanes & (0u - actor.lanes);
  const std::uint32_t lanes = m.act == Act::kCopyMap ? first : actor.lanes;
  const std::uint64_t at = before_.address[first_lane(first) & 31];
  const bool in_shared =
      m.act == Act::kReplaceMap && (static_cast<MapPlace>(actor.inst->target) == MapPlace::kShared ||
                                    at >> 32 == 0 || space_of_address(at) == Space::kShared);
  const Space space = in_shared ? Space::kShared : Space::kGlobal;
  for (std::uint64_t& address : before_.address) address = without_aperture(address);
  if (m.act == Act::kCopyMap) {
    for (std::uint64_t& address : before_.second) address = without_aperture(address);
    tell_one_access(actor, Space::kShared, before_.second, lanes, kMapBytes, true, false);
  }
  if (at >> 56 == kParamAperture >> 56) return;
  tell_one_access(actor, space, before_.address, lanes, kMapBytes, m.act == Act::kReplaceMap, true);
  if (m.act != Act::kCopyMap) return;
  const Fence fence{Fence::Kind::kProxyTensormap, Order::kRelease, Scope::kGpu, Space::kGlobal};
  all([&](Detector& d) { d.fenced(actor, fence); });
}

void Sanitizer::tell_map_use(const Actor& actor) {
  Access access{Space::kGlobal, true, false, false, Order::kWeak, Scope::kGpu, 0, kMapBytes, before_.address};
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    if (space_of_address(before_.address[lane]) == Space::kGlobal) access.lanes |= 1u << lane;
  }
  access.lanes = inside(*actor.warp, Space::kGlobal, before_.address, access.lanes, kMapBytes);
  if (access.lanes != 0) all([&](Detector& d) { d.map_used(actor, access); });
}

void Sanitizer::tell_mbarrier_wait(const Actor& actor, const Effects& m) {
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

void Sanitizer::tell_tmem(const Actor& actor, const Effects& m) {
  const Warp& w = *actor.warp;
  constexpr std::pair<Act, TmemUse::Op> kOps[] = {{Act::kTmemAlloc, TmemUse::Op::kAlloc},
                                                  {Act::kTmemDealloc, TmemUse::Op::kDealloc},
                                                  {Act::kTmemRelinquish, TmemUse::Op::kRelinquish},
                                                  {Act::kTmemLoad, TmemUse::Op::kLoad},
                                                  {Act::kTmemStore, TmemUse::Op::kStore}};
  TmemUse use{TmemUse::Op::kAlloc, before_.tmem};
  for (const auto& [kind, op] : kOps) {
    if (kind == m.act) use.op = op;
  }
  if (m.act == Act::kTmemAlloc) {
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
