#include "observe/sanitize/aligned.hpp"

#include <algorithm>
#include <string>

#include "machine/ops/operands.hpp"
#include "observe/sanitize/joins.hpp"

namespace sglab::emu {
namespace {

constexpr std::int64_t kLongAgo = -1;
constexpr std::uint32_t kMostBarriers = 1u << 16;  // that some lanes may be late for
constexpr std::size_t kMostParted = 64;            // branches of a warp whose lanes have not met again
constexpr char kCame[] = "came to the barrier";
constexpr char kPast[] = "some go past a barrier that others came to";

// Whether diverged lanes that are at `pc` have the barrier behind them, unless they come to it once more.
bool is_behind(const Program& program, std::uint32_t pc, const Party& barrier) {
  const auto at = static_cast<std::size_t>(barrier.pc);
  return program.places[pc].function == program.places[at].function && program.order[pc] > program.order[at];
}

}  // namespace

void AlignedLanes::launched(const Launch& launch) {
  uneven_.clear();
  gone_.clear();
  parted_.clear();
  skipped_.clear();
  whole_.clear();
  program_ = launch.program;
}

void AlignedLanes::cluster_finished(const Cluster& cluster) {
  const Key first{cluster.index, 0}, end{cluster.index + 1, 0};
  uneven_.erase(uneven_.lower_bound(first), uneven_.lower_bound(end));
  gone_.erase(gone_.lower_bound(first), gone_.lower_bound(end));
  parted_.erase(parted_.lower_bound(first), parted_.lower_bound(end));
  skipped_.erase(skipped_.lower_bound(first), skipped_.lower_bound(end));
}

void AlignedLanes::report(Uneven& uneven, const Party& who, const Party& barrier, const char* how,
                          const char* did) {
  uneven.reported = true;
  Finding finding;
  finding.detector = "barriers";
  finding.kind = "barrier_diverged";
  finding.message = std::string("lanes of one warp have diverged and ") + how +
                    "; all lanes of a warp must execute the same barrier instructions";
  finding.at = who;
  finding.other = barrier;
  finding.other_did = did;
  findings_.report(std::move(finding));
}

// Whether all that act have come to equally many barriers; the others are reported.
bool AlignedLanes::together(const Actor& actor, Uneven& uneven) {
  std::uint32_t fewest = ~0u, most = 0;
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    const std::uint32_t at = uneven.at[static_cast<std::size_t>(first_lane(rest))];
    fewest = std::min(fewest, at);
    most = std::max(most, at);
  }
  if (fewest == most) return true;
  Party late = party(actor);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (uneven.at[lane] != fewest) late.lanes &= ~(1u << lane);
  }
  report(uneven, late, uneven.barriers[fewest], kPast, kCame);
  return false;
}

void AlignedLanes::at_barrier(const Actor& actor) {
  const std::uint32_t live = actor.warp->live;
  if (uneven_.empty() && parted_.empty() && actor.lanes == live) return;
  const std::uint32_t pc = pc_of(actor);
  if (!is_aligned(*program_, pc)) return;
  auto warp = uneven_.find(key_of(actor));
  if (warp == uneven_.end()) {
    if (actor.lanes == live) return came(actor);
    warp = uneven_.try_emplace(key_of(actor)).first;
  }
  Uneven& uneven = warp->second;
  came(actor);
  if (uneven.reported || !together(actor, uneven)) return;
  const std::uint32_t at = uneven.at[static_cast<std::size_t>(first_lane(actor.lanes))];
  if (at == kMostBarriers) {
    uneven.reported = true;
  } else if (at == uneven.barriers.size()) {
    uneven.barriers.push_back(party(actor));
  } else if (uneven.barriers[at].pc != pc) {
    return report(uneven, party(actor), uneven.barriers[at], "execute different barrier instructions",
                  "executed another");
  }
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1)
    ++uneven.at[static_cast<std::size_t>(first_lane(rest))];
  // They were late, not past it.
  for (auto& [where, passer] : uneven.passed) passer.who.lanes &= ~actor.lanes;
  settle(warp, live);
}

// Counts a barrier for those lanes that have parted from others and not met them again.
void AlignedLanes::came(const Actor& actor) {
  const auto warp = parted_.find(key_of(actor));
  if (warp == parted_.end()) return;
  for (Parted& parted : warp->second) {
    if ((parted.inside & actor.lanes) == 0) continue;
    parted.barrier = party(actor);
    for (std::uint32_t rest = parted.inside & actor.lanes; rest != 0; rest &= rest - 1) {
      const std::uint32_t count = ++parted.came[static_cast<std::size_t>(first_lane(rest))];
      parted.most = std::max(parted.most, count);
    }
    judge(actor, parted);
  }
}

// Lanes that are where all meet again must have come to as many barriers on the way as any other.
void AlignedLanes::judge(const Actor& actor, const Parted& parted) {
  Party late = parted.branch;
  late.lanes = 0;
  for (std::uint32_t rest = parted.met & actor.warp->live; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(first_lane(rest));
    if (parted.came[lane] < parted.most) late.lanes |= 1u << lane;
  }
  if (late.lanes != 0) skipped_.try_emplace(key_of(actor), Skipped{late, parted.barrier});
}

// A warp has ended of which lanes have skipped a barrier, and did nothing behind it that told so.
void AlignedLanes::tell(const Key& key) {
  const auto skipped = skipped_.find(key);
  if (skipped == skipped_.end()) return;
  Uneven& uneven = uneven_[key];
  if (!uneven.reported) report(uneven, skipped->second.branch, skipped->second.barrier, kPast, kCame);
  skipped_.erase(skipped);
}

void AlignedLanes::parts(const Actor& actor, std::uint32_t join) {
  std::vector<Parted>& all = parted_[key_of(actor)];
  if (all.size() == kMostParted) all.erase(all.begin());
  Parted parted;
  parted.branch = party(actor);
  parted.join = join;
  parted.frame = actor.warp->groups[actor.warp->group].frame;
  parted.inside = actor.lanes;
  all.push_back(parted);
}

void AlignedLanes::meets(const Actor& actor) {
  const auto warp = parted_.find(key_of(actor));
  if (warp == parted_.end()) return;
  const std::uint32_t pc = pc_of(actor), frame = actor.warp->groups[actor.warp->group].frame;
  for (Parted& parted : warp->second) {
    const std::uint32_t come = parted.inside & actor.lanes;
    if (come == 0 || parted.join != pc || parted.frame != frame) continue;
    parted.inside &= ~come;
    parted.met |= come;
    judge(actor, parted);
  }
  forget_met(warp);
}

// Forgets the branches of which all lanes have met again or exited.
void AlignedLanes::forget_met(std::map<Key, std::vector<Parted>>::iterator warp) {
  std::erase_if(warp->second, [](const Parted& parted) { return parted.inside == 0; });
  if (warp->second.empty()) parted_.erase(warp);
}

// Forgets the barriers that all lanes have come to, if they have come to all.
void AlignedLanes::settle(std::map<Key, Uneven>::iterator warp, std::uint32_t live) {
  Uneven& uneven = warp->second;
  std::erase_if(uneven.passed, [](const auto& each) { return each.second.who.lanes == 0; });
  for (std::uint32_t rest = live; rest != 0; rest &= rest - 1) {
    if (uneven.at[static_cast<std::size_t>(first_lane(rest))] != uneven.barriers.size()) return;
  }
  if (live == 0 || (uneven.passed.empty() && !uneven.reported)) {
    uneven_.erase(warp);
    return;
  }
  uneven.barriers.clear();
  uneven.at.fill(0);
  for (auto& [where, passer] : uneven.passed) passer.at = kLongAgo;
}

// Lanes may leave early, so it is no fault yet that some have not come to a barrier. They are past it if they
// do behind it what those do as well who came.
void AlignedLanes::follow(const Actor& actor) {
  const auto warp = uneven_.find(key_of(actor));
  if (warp == uneven_.end() || actor.lanes == 0) return;
  Uneven& uneven = warp->second;
  if (uneven.reported || !together(actor, uneven)) return;
  const std::uint32_t pc = pc_of(actor), at = uneven.at[static_cast<std::size_t>(first_lane(actor.lanes))];
  const auto known = uneven.passed.find(pc);
  if (known != uneven.passed.end() && known->second.at < at) {
    const Passer passer = known->second;
    return report(uneven, passer.who, passer.barrier, kPast, kCame);
  }
  if (at == uneven.barriers.size() || !is_behind(*program_, pc, uneven.barriers[at])) return;
  const auto [passer, fresh] = uneven.passed.try_emplace(pc, Passer{party(actor), uneven.barriers[at], at});
  passer->second.who.lanes |= actor.lanes;
}

void AlignedLanes::exited(const Actor& actor) {
  const Key key = key_of(actor);
  const std::uint32_t live = actor.warp->live;
  if (live == 0) tell(key);
  if (const auto warp = parted_.find(key); warp != parted_.end()) {
    for (Parted& parted : warp->second) parted.inside &= live;
    forget_met(warp);
  }
  if (const auto warp = uneven_.find(key); warp != uneven_.end()) settle(warp, live);
  if (live == 0) {
    gone_.erase(key);
    return;
  }
  const auto [gone, fresh] = gone_.try_emplace(key, party(actor));
  const std::uint32_t before = gone->second.lanes;
  gone->second = party(actor);
  gone->second.lanes |= before;
}

void AlignedLanes::executed(const Actor& actor) {
  const auto gone = gone_.find(key_of(actor));
  if (gone == gone_.end()) return;
  if (whole_.empty()) {
    for (std::uint32_t pc = 0; pc < program_->code.size(); ++pc)
      whole_.push_back(!is_barrier(program_->effects[pc].act) && is_aligned(*program_, pc));
  }
  const std::uint32_t pc = pc_of(actor);
  if (whole_[pc] == 0) return;
  Finding finding;
  finding.detector = "barriers";
  finding.kind = "lanes_exited";
  finding.message =
      std::string(opcode_of(*program_, pc)) + " needs all lanes of the warp, and some have exited";
  finding.at = party(actor);
  finding.other = gone->second;
  finding.other_did = "exited";
  findings_.report(std::move(finding));
}

}  // namespace sglab::emu
