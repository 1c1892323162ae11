#include "observe/sanitize/barriers.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/async/operations.hpp"
#include "machine/engine/fault.hpp"
#include "machine/ops/operands.hpp"

namespace sglab::emu {
namespace {

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
  cached_index_ = ~std::uint64_t{0};
  aligned_.launched(launch);
  members_.launched(launch);
  misuse_.clear();
}

void BarrierSanitizer::cluster_started(const Cluster& cluster) {
  State& state = states_[cluster.index] = {};
  state.exits.resize(cluster.ctas.size());
  state.heard.resize(cluster.warps.size());
  state.owns.resize(cluster.warps.size());
  cached_index_ = ~std::uint64_t{0};
}

// Of a large grid many CTAs may do no more than initialise their objects, so what becomes of memory matters.
BarrierSanitizer::Object& BarrierSanitizer::object_at(State& state, std::uint32_t address) {
  const auto found = state.objects.find(address);
  if (found != state.objects.end()) return found->second;
  if (spare_.empty()) return state.objects[address];
  Objects::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = address;
  node.mapped() = {};
  return state.objects.insert(std::move(node)).position->second;
}

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

void BarrierSanitizer::warp_synced(const Actor& actor, std::uint32_t all, bool) {
  members_.met(actor, all);
}

void BarrierSanitizer::hear(const Actor& actor, std::uint64_t event) {
  std::uint64_t& heard = of(actor).heard[actor.warp->slot];
  heard = std::max(heard, event);
}

// Who waits for columns waits for a warp that gives some back.
void BarrierSanitizer::tensor_memory(const Actor& actor, const TmemUse& use) {
  acted(actor);
  if (use.op == TmemUse::Op::kAlloc) hear_now(actor);
}

// A wgmma needs all four warps.
void BarrierSanitizer::waited(const Actor& actor, GroupKind group, std::uint32_t, bool) {
  if (group == GroupKind::kWgmma) hear_now(actor);
}

void BarrierSanitizer::issued(const Actor& actor, const AsyncOp& op) {
  acted(actor);
  if (op.mbarrier == kNoMbarrier || op.kind == AsyncOp::Kind::kArrival) return;
  for_each_signalled(*actor.warp->cluster, op,
                     [&](std::uint32_t address) { object_at(of(actor), address).in_flight.insert(op.id); });
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
  acted(actor);
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
  State& state = states_[cluster.index];
  for (const auto& [key, named] : state.named) check_totals(named);
  aligned_.cluster_finished(cluster);
  members_.cluster_finished(cluster);
  for (const auto& [address, object] : state.objects) {
    if (object.alive) check_bytes(cluster, address, object);
  }
  while (!state.objects.empty()) spare_.push_back(state.objects.extract(state.objects.begin()));
  states_.erase(cluster.index);
  cached_index_ = ~std::uint64_t{0};
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
