#include <cstring>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/ops/members.hpp"
#include "machine/ops/operands.hpp"
#include "observe/sanitize/sanitizer.hpp"

// What an instruction did, for detectors.
namespace sglab::emu {

void Sanitizer::notify(const Actor& actor, const Effects& m) {
  const Warp& w = *actor.warp;
  switch (m.act) {
    case Act::kAccess:
    case Act::kMatrixRows:
      notify_access(actor, m);
      break;
    case Act::kMatrixTile:
      notify_tile(actor, m);
      break;
    case Act::kClear:
      notify_clear(actor);
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
      notify_mbarrier_wait(actor, m);
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
      notify_tmem(actor, m);
      break;
    case Act::kReplaceMap:
    case Act::kCopyMap:
      notify_maps(actor, m);
      break;
    case Act::kIssueByMap:
      notify_map_use(actor);
      break;
    case Act::kWarpSync:
      for (std::uint32_t rest = actor.lanes; rest != 0;) {
        const std::uint32_t members = lanes32(w, actor.inst->a)[first_lane(rest)];
        const Actor set{actor.warp, actor.inst, naming(w, actor.inst->a, rest, members), actor.position};
        all([&](Detector& d) { d.warp_synced(set, set.lanes | before_.meeting, true); });
        rest &= ~set.lanes;
      }
      break;
    case Act::kWarpExchange:
      all([&](Detector& d) { d.warp_synced(actor, actor.lanes | before_.meeting, false); });
      break;
    case Act::kExit: {
      Actor gone = actor;
      gone.lanes = before_.live & ~w.live;
      if (gone.lanes != 0) all([&](Detector& d) { d.exited(gone); });
      thinned_ = thinned_ || (gone.lanes != 0 && w.live != 0);
      break;
    }
    default:
      break;
  }
}

void Sanitizer::notify_mbarrier_wait(const Actor& actor, const Effects& m) {
  const Warp& w = *actor.warp;
  Held& known = held(*w.cluster);
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
    const auto found = known.phase_of(address);
    const bool begun = found != known.phases.end() && found->first == address;
    const std::int64_t phase = begun ? static_cast<std::int64_t>(found->second) - 1 : -1;
    const MbarrierWait wait{address, phase, m.order, m.scope};
    all([&](Detector& d) { d.mbarrier_passed(some, wait); });
  }
}

void Sanitizer::notify_tmem(const Actor& actor, const Effects& m) {
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
    notify_one_access(actor, Space::kShared, before_.address, first, 4, false, true);
  }
  all([&](Detector& d) { d.tensor_memory(actor, use); });
}

}  // namespace sglab::emu
