#include "observe/sanitize/members.hpp"

#include <string>
#include <utility>

#include "machine/ops/operands.hpp"

namespace sglab::emu {
namespace {

bool has_members(Act act) {
  return act == Act::kWarpSync || act == Act::kWarpExchange;
}

}  // namespace

void MissedMembers::launched(const Launch& launch) {
  passed_.clear();
  program_ = launch.program;
}

void MissedMembers::cluster_finished(const Cluster& cluster) {
  passed_.erase(passed_.lower_bound({cluster.index, 0, 0, 0}),
                passed_.lower_bound({cluster.index + 1, 0, 0, 0}));
}

// Those who come were late, not past it.
void MissedMembers::forget(const Actor& actor, std::uint32_t come) {
  const std::uint32_t sync = pc_of(actor);
  const std::uint64_t cluster = actor.warp->cluster->index;
  const std::uint32_t warp = actor.warp->slot;
  const auto end = passed_.lower_bound({cluster, warp + 1, 0, 0});
  for (auto at = passed_.lower_bound({cluster, warp, 0, 0}); at != end;) {
    if (at->first.sync == sync) at->second.who.lanes &= ~come;
    at = at->second.who.lanes == 0 ? passed_.erase(at) : std::next(at);
  }
}

// A set goes on when its members have come or exited: if it now does what one of them has done behind the
// instruction, that one has exited without having come.
void MissedMembers::follow(const Actor& actor) {
  const Warp& w = *actor.warp;
  const std::uint32_t pc = pc_of(actor);
  const std::uint64_t cluster = w.cluster->index;
  const auto end = passed_.lower_bound({cluster, w.slot, pc + 1, 0});
  for (auto at = passed_.lower_bound({cluster, w.slot, pc, 0}); at != end;) {
    const auto& [who, waiting] = at->second;
    if ((waiting.lanes & actor.lanes) == 0 || (who.lanes & w.live) != 0) {
      ++at;
      continue;
    }
    Finding finding;
    finding.error = false;
    finding.detector = "barriers";
    finding.kind = "member_missing";
    finding.message =
        "lanes have gone past " + std::string(opcode_of(*program_, at->first.sync)) +
        ", whose member mask names them: the others wait for them until they exit, and a GPU may "
        "wait for ever";
    finding.at = who;
    finding.other = waiting;
    finding.other_did = "waited for them";
    findings_.report(std::move(finding));
    at = passed_.erase(at);
  }
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    const Group& g = w.groups[i];
    if (g.wait != Wait::kWarp || (g.key & actor.lanes) == 0 || (g.mask & actor.lanes) != 0) continue;
    if (!has_members(program_->effects[g.pc].act)) continue;
    if (program_->places[pc].function != program_->places[g.pc].function ||
        program_->order[pc] <= program_->order[g.pc])
      continue;
    Actor waiter = actor;
    waiter.inst = w.code + g.pc;
    waiter.lanes = g.mask;
    Actor passer = actor;
    passer.lanes &= static_cast<std::uint32_t>(g.key);
    const auto [pass, fresh] =
        passed_.try_emplace({cluster, w.slot, pc, g.pc}, Pass{party(passer), party(waiter)});
    pass->second.who.lanes |= passer.lanes;
    pass->second.waiting.lanes |= g.mask;
  }
}

}  // namespace sglab::emu
