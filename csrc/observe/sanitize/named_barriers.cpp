#include <string>
#include <utility>

#include "observe/sanitize/barriers.hpp"

// Named barriers and the cluster's: who comes to which phase.
namespace sglab::emu {

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

}  // namespace sglab::emu
