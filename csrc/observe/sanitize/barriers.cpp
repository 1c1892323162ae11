#include "observe/sanitize/barriers.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/async/operations.hpp"
#include "machine/engine/fault.hpp"
#include "machine/ops/operands.hpp"

namespace sglab::emu {
namespace {

bool somebody_waits(const Cluster& cluster, std::uint32_t address) {
  for (const Warp& w : cluster.warps) {
    for (std::uint32_t i = 0; i < w.group_count; ++i) {
      if (w.groups[i].wait == Wait::kMbarrier && w.groups[i].key == address) return true;
    }
  }
  return false;
}

// The mbarriers that an operation signals.
template <class F>
void for_each_signalled(const Cluster& cluster, const AsyncOp& op, F f) {
  if (op.signalled == 0) return f(op.mbarrier);
  for (std::uint32_t rank = 0; rank < cluster.ctas.size(); ++rank) {
    if ((op.signalled >> rank & 1u) != 0) f(rank << kSharedRankShift | (op.mbarrier & kSharedOffsetMask));
  }
}

}  // namespace

void BarrierSanitizer::launched(const Launch& launch) {
  states_.clear();
  aligned_.launched(launch);
  misuse_.clear();
}

void BarrierSanitizer::cluster_started(const Cluster& cluster) {
  State& state = states_[cluster.index] = {};
  state.exits.resize(cluster.ctas.size());
  state.heard.resize(cluster.warps.size());
}

// In place of an mbarrier's address: a named barrier has no place in memory.
constexpr std::uint32_t kNamed = ~0u;

void BarrierSanitizer::report(const char* kind, std::string message, const Party& at, const Party& other,
                              const char* other_did, std::uint32_t address, bool error) {
  Finding finding;
  finding.error = error;
  finding.detector = "barriers";
  finding.kind = kind;
  finding.message = std::move(message);
  finding.at = at;
  finding.other = other;
  finding.other_did = other_did;
  if (address != kNamed) {
    finding.space = "shared";
    finding.address = address;
    finding.bytes = 8;
  }
  findings.report(std::move(finding));
}

const std::set<Arriver>* BarrierSanitizer::arrivers(const Cluster& cluster, std::uint32_t address) const {
  const auto state = states_.find(cluster.index);
  if (state == states_.end()) return nullptr;
  const auto object = state->second.objects.find(address);
  return object == state->second.objects.end() ? nullptr : &object->second.arrivers;
}

// The objects that this warp has initialised and that are not known to all threads yet.
template <class F>
void BarrierSanitizer::for_each_own(const Actor& actor, F f) {
  for (auto& [address, object] : of(actor).objects) {
    if (object.alive && object.initialiser == actor.warp->slot && !(object.published && object.released))
      f(object);
  }
}

void BarrierSanitizer::fenced(const Actor& actor, const Fence& fence) {
  const bool cluster_wide = fence.kind == Fence::Kind::kMbarrierInit ||
                            (fence.kind == Fence::Kind::kThread && fence.scope != Scope::kCta);
  if (cluster_wide) for_each_own(actor, [](Object& object) { object.fenced = true; });
}

void BarrierSanitizer::arrived(const Actor& actor, const BarrierUse& use) {
  const bool cluster = use.number == kClusterBarrierNumber;
  aligned_.at_barrier(actor);
  for_each_own(actor, [&](Object& object) {
    object.published = true;
    object.released = object.released || (cluster && (object.fenced || use.order != Order::kRelaxed));
  });
  Named& named = named_of(actor, use);
  if (named.arrivals.empty() || named.phase != use.phase) {
    named.arrivals_before = std::exchange(named.arrivals, {});
    named.again_before = std::exchange(named.again, {});
    named.first = party(actor);
    named.first_slot = actor.warp->slot;
  }
  named.phase = use.phase;
  named.ends[use.phase % kPhases] = ++of(actor).events;
  if (cluster) return check_waited(actor, use, named);
  check_same_instruction(actor, use, named);
  const auto [known, fresh] = named.arrivals.try_emplace(actor.warp->slot, party(actor));
  if (fresh) {
    if (use.threads == 0) ++named.total[actor.warp->slot];
    check_apart(actor, use, named);
    return;
  }
  if ((known->second.lanes & actor.lanes) != 0) {
    const Pcs pcs{known->second.pc, pc_of(actor)};
    named.twice.try_emplace(pcs, known->second, party(actor));
    named.again.insert(pcs);
  }
  known->second.lanes |= actor.lanes;
}

void BarrierSanitizer::passed(const Actor& actor, const BarrierUse& use) {
  if (use.number == kClusterBarrierNumber) aligned_.at_barrier(actor);
  hear(actor, named_of(actor, use).ends[use.phase % kPhases]);
}

void BarrierSanitizer::hear(const Actor& actor, std::uint64_t event) {
  std::uint64_t& heard = of(actor).heard[actor.warp->slot];
  heard = std::max(heard, event);
}

// A barrier counts arrivals, whoever makes them: a warp may make several of a phase, if it is certain which
// phase each one counts in. It is where whoever comes to the next phase comes after the end of this one; a
// warp that has heard of nobody since then might as well have come before, and ended it in another's place.
void BarrierSanitizer::check_apart(const Actor& actor, const BarrierUse& use, Named& named) {
  if (use.phase == 0 || of(actor).heard[actor.warp->slot] >= named.ends[(use.phase - 1) % kPhases]) return;
  const std::string barrier = "barrier " + std::to_string(use.number);
  for (const Pcs& pcs : named.again_before) {
    const auto& [first, again] = named.twice.at(pcs);
    report("barrier_arrived_twice",
           "a warp arrives twice in one phase of " + barrier + ", and warp " +
               std::to_string(actor.warp->index) +
               " comes to a next phase without having waited for the end of that one: timing decides whose "
               "arrivals end it",
           again, first, "arrived first", kNamed);
  }
  if (!std::exchange(named.again_before, {}).empty()) named.arrivals_before.clear();
  const auto before = named.arrivals_before.find(actor.warp->slot);
  if (before == named.arrivals_before.end()) return;
  report(
      "barrier_arrived_twice",
      "a warp arrives at " + barrier +
          " for two phases without waiting in between: it may arrive twice in one, which then ends without "
          "another warp",
      party(actor), before->second, "arrived first", kNamed);
}

// "Each thread must arrive at the barrier only once before the barrier completes" (PTX ISA, barrier.cluster).
void BarrierSanitizer::check_waited(const Actor& actor, const BarrierUse& use, Named& named) {
  const auto [known, fresh] = named.arrivals.try_emplace(actor.warp->slot, party(actor));
  const auto before = named.arrivals_before.find(actor.warp->slot);
  const Party* first = nullptr;
  if (!fresh) {
    first = &known->second;
  } else if (before != named.arrivals_before.end() && use.phase != 0 &&
             of(actor).heard[actor.warp->slot] < named.ends[(use.phase - 1) % kPhases]) {
    first = &before->second;
  }
  if (first != nullptr && (first->lanes & actor.lanes) != 0) {
    report("barrier_arrived_twice",
           "a warp arrives at the cluster's barrier again without having waited for it "
           "(barrier.cluster.wait): it may end a phase in another warp's place",
           party(actor), *first, "arrived first", kNamed);
  }
  known->second.lanes |= actor.lanes;
}

// Warps may well meet at different instructions; see check_totals.
void BarrierSanitizer::check_same_instruction(const Actor& actor, const BarrierUse& use, Named& named) {
  if (use.threads == 0 && !named.arrivals.contains(actor.warp->slot) && !named.arrivals.empty() &&
      named.first.pc != pc_of(actor))
    named.mixed.try_emplace({actor.warp->slot, named.first_slot}, party(actor), named.first);
}

// Warps of specialised kernels meet at different instructions on purpose, and equally often. Where one of two
// that met so has come more often than the other, which has exited, a barrier has stood in for the next one.
void BarrierSanitizer::check_totals(const Named& named) {
  for (const auto& [slots, parties] : named.mixed) {
    if (named.total.at(slots.first) == named.total.at(slots.second)) continue;
    report(
        "barrier_mismatched",
        "two warps meet at different barrier instructions, and one of them has passed more barriers than the "
        "other when the block ends: a barrier stands in a branch that not all threads of the block take",
        parties.first, parties.second, "met it from", kNamed, false);
  }
}

void BarrierSanitizer::check_use(const Actor& actor, const MbarrierEvent& event, const Object& object) {
  if (actor.warp->slot == object.initialiser) return;
  const bool remote = rank_of(event.address) != actor.warp->cta->rank;
  if (remote ? object.released : object.published) return;
  const std::string name = "the mbarrier at shared address " + hex(event.address);
  report("mbarrier_unpublished",
         remote
             ? name +
                   " is used by another CTA, but its initialisation was not released to the cluster "
                   "(fence.mbarrier_init and a cluster barrier)"
             : name + " is used by another warp, but the one that initialised it has not synchronised since",
         party(actor), object.init, "initialised it", event.address);
}

// init or inval of an object in use.
void BarrierSanitizer::check_replaced(const Actor& actor, const MbarrierEvent& event, const Object& object) {
  if (!object.alive) return;
  const Mbarrier before = Mbarrier::load(event.before);
  const bool waited = somebody_waits(*actor.warp->cluster, event.address);
  if (!waited && object.in_flight.empty() && before.pending == before.expected && before.tx_count == 0)
    return;
  const bool init = event.op == MbarrierUse::Op::kInit;
  std::string why = waited                      ? "a thread waits for it"
                    : !object.in_flight.empty() ? "operations in flight signal it"
                                                : "its phase has begun";
  report(init ? "mbarrier_reinitialised" : "mbarrier_invalidated_in_use",
         "the mbarrier at shared address " + hex(event.address) +
             (init ? " is initialised again while " : " is invalidated while ") + why,
         party(actor), object.last, "used it last", event.address);
}

void BarrierSanitizer::note(const Actor& actor, const MbarrierEvent& event, Object& object) {
  const Party here = party(actor);
  object.last = here;
  object.brought = object.brought || event.op == MbarrierUse::Op::kCompleteTx;
  if (event.status == MbarrierStatus::kPhaseComplete) {
    object.ended = ++of(actor).events;
    object.brought = false;
  }
  switch (event.op) {
    case MbarrierUse::Op::kArrive:
      object.arrival = here;
      if (event.tx != 0) object.expect = here;
      object.arrivers.insert({actor.warp->slot, pc_of(actor)});
      return;
    case MbarrierUse::Op::kExpect:
      object.expect = here;
      return;
    case MbarrierUse::Op::kCompleteTx:
      object.complete = here;
      object.arrivers.insert({actor.warp->slot, pc_of(actor)});
      return;
    default:
      return;
  }
}

void BarrierSanitizer::mbarrier(const Actor& actor, const MbarrierEvent& event) {
  if (actor.operation == 0) aligned_.acted(actor);
  Object& object = of(actor).objects[event.address];
  if (actor.operation != 0) object.in_flight.erase(actor.operation);
  if (is_misuse(event.status) && event.status != MbarrierStatus::kInitOfLiveObject) {
    misuse_ = mbarrier_status_name(event.status);
    misuser_ = party(actor);
    misused_address_ = event.address;
    const bool gone = event.status == MbarrierStatus::kUninitialised;
    misused_by_ = gone ? object.inval : object.arrival;
    misused_did_ = gone ? "invalidated it" : "arrived before";
    return;
  }
  if (event.op == MbarrierUse::Op::kInit) {
    check_replaced(actor, event, object);
    std::set<Arriver> arrivers = std::move(object.arrivers);
    object = {};
    object.arrivers = std::move(arrivers);
    object.alive = true;
    object.initialiser = actor.warp->slot;
    object.init = object.last = party(actor);
    return;
  }
  if (event.op == MbarrierUse::Op::kInval) {
    check_replaced(actor, event, object);
    object.alive = false;
    object.inval = party(actor);
    return;
  }
  if (object.alive) check_use(actor, event, object);
  check_alive(actor, event.address, false);
  // A thread that signals others, by an mbarrier or otherwise, has published what it did before.
  if (actor.operation == 0 && event.op == MbarrierUse::Op::kArrive)
    for_each_own(actor, [](Object& own) { own.published = own.released = true; });
  note(actor, event, object);
}

void BarrierSanitizer::mbarrier_passed(const Actor& actor, const MbarrierWait& wait) {
  aligned_.acted(actor);
  if (wait.phase >= 0) hear(actor, of(actor).objects[wait.address].ended);
}

// Who waits for columns waits for a warp that gives some back.
void BarrierSanitizer::tensor_memory(const Actor& actor, const TmemUse& use) {
  aligned_.acted(actor);
  if (use.op == TmemUse::Op::kAlloc) hear_now(actor);
}

// A wgmma needs all four warps.
void BarrierSanitizer::waited(const Actor& actor, GroupKind group, std::uint32_t, bool) {
  if (group == GroupKind::kWgmma) hear_now(actor);
}

void BarrierSanitizer::issued(const Actor& actor, const AsyncOp& op) {
  aligned_.acted(actor);
  if (op.mbarrier == kNoMbarrier || op.kind == AsyncOp::Kind::kArrival) return;
  for_each_signalled(*actor.warp->cluster, op,
                     [&](std::uint32_t address) { of(actor).objects[address].in_flight.insert(op.id); });
}

void BarrierSanitizer::performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) {
  // One look at each CTA will do.
  std::uint32_t seen = 0;
  for (const auto* const ranges : {&footprint.reads, &footprint.writes}) {
    for (const Range& range : *ranges) {
      if (range.space != Space::kShared || (seen >> rank_of(range.address) & 1u) != 0) continue;
      seen |= 1u << rank_of(range.address);
      check_alive(actor, range.address, true, ranges == &footprint.reads && op.kind == AsyncOp::Kind::kBulk);
    }
  }
}

// Whether the CTA whose shared memory is touched still runs.
// Bulk stores that read it late find their bytes on a GPU, mostly.
void BarrierSanitizer::check_alive(const Actor& actor, std::uint64_t address, bool own_matters, bool reads) {
  const Cta& owner = actor.warp->cluster->ctas[rank_of(address)];
  if (owner.live_lanes != 0) return;
  if (&owner == actor.warp->cta && !own_matters) return;
  const bool own = &owner == actor.warp->cta;
  report(
      own ? "exit_in_flight" : "peer_exited",
      own ? "an asynchronous operation touches shared memory at " + hex(address) + " after its CTA has exited"
          : "shared memory at " + hex(address) + " of another CTA is touched after that CTA has exited",
      party(actor), of(actor).exits[owner.rank], "exited", static_cast<std::uint32_t>(address),
      !(own && reads));
}

void BarrierSanitizer::accessed(const Actor& actor, const Access& access) {
  const Cluster& cluster = *actor.warp->cluster;
  aligned_.acted(actor);
  if (access.reads && (access.atomic || access.order != Order::kWeak)) hear_now(actor);
  const bool tells = access.writes && (access.atomic || access.order != Order::kWeak);
  if (tells) for_each_own(actor, [](Object& object) { object.published = object.released = true; });
  if (access.space != Space::kShared || cluster.ctas.size() == 1) return;
  const std::uint64_t first = access.address[first_lane(access.lanes) & 31];
  if (rank_of(first) != actor.warp->cta->rank) check_alive(actor, first, false);
}

void BarrierSanitizer::exited(const Actor& actor) {
  of(actor).exits[actor.warp->cta->rank] = party(actor);
  aligned_.exited(actor);
}

void BarrierSanitizer::cluster_finished(const Cluster& cluster) {
  for (const auto& [key, named] : states_[cluster.index].named) check_totals(named);
  aligned_.cluster_finished(cluster);
  for (const auto& [address, object] : states_[cluster.index].objects) {
    if (!object.alive) continue;
    std::uint64_t word;
    std::memcpy(&word, cluster.ctas[rank_of(address)].shared + (address & kSharedOffsetMask), sizeof word);
    const Mbarrier state = Mbarrier::load(word);
    if (!state.valid || state.tx_count == 0) continue;  // or its memory has become something else
    const bool missing = state.tx_count > 0;
    const std::string bytes = std::to_string(std::abs(state.tx_count)) + " bytes";
    // A producer that waits for its last buffer as for any other announces bytes for it, and brings none.
    const bool in_vain = missing && !object.brought;
    report("mbarrier_tx_count",
           "at the end of the CTA, " + bytes + (missing ? " have not arrived" : " have arrived unexpected") +
               " at the mbarrier at shared address " + hex(address),
           missing ? object.expect : object.complete, missing ? object.complete : object.expect,
           missing ? "brought bytes last" : "expected bytes last", address, !in_vain);
  }
  states_.erase(cluster.index);
}

void BarrierSanitizer::explain(const Fault& fault, Finding& finding) {
  if (fault.kind == "mbarrier" && !misuse_.empty()) {
    finding.detector = "barriers";
    finding.kind = "mbarrier_" + misuse_;
    finding.at = misuser_;
    finding.other = misused_by_;
    finding.other_did = misused_did_;
    finding.space = "shared";
    finding.address = misused_address_;
    finding.bytes = 8;
  } else if (fault.kind == "barrier") {
    finding.detector = "barriers";
    finding.kind = "barrier_count";
    for (const auto& [index, state] : states_) {
      for (const auto& [key, named] : state.named) {
        if (key == kClusterBarrierNumber || named.first.cta != finding.at.cta || named.arrivals.empty())
          continue;
        if (finding.other.cta >= 0 && named.first.position < finding.other.position) continue;
        finding.other = named.first;
        finding.other_did = "arrived first";
      }
    }
  }
}

}  // namespace sglab::emu
