#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/engine/fault.hpp"
#include "observe/sanitize/barriers.hpp"

// What is done to mbarriers.
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

}  // namespace

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
  if (actor.operation == 0) acted(actor);
  Object& object = object_at(of(actor), event.address);
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
    of(actor).owns[actor.warp->slot] = 1;
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
  acted(actor);
  if (wait.phase >= 0) hear(actor, object_at(of(actor), wait.address).ended);
}

// Bytes that a phase lacks, or has too many of, when its CTA has ended.
void BarrierSanitizer::check_bytes(const Cluster& cluster, std::uint32_t address, const Object& object) {
  std::uint64_t word;
  std::memcpy(&word, cluster.ctas[rank_of(address)].shared + (address & kSharedOffsetMask), sizeof word);
  const Mbarrier state = Mbarrier::load(word);
  if (!state.valid || state.tx_count == 0) return;  // or its memory has become something else
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

}  // namespace sglab::emu
