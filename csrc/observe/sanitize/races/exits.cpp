#include "isa/aperture.hpp"
#include "observe/sanitize/races/detector.hpp"

// Shared memory ends with its CTA: what others do there must come before one of its threads exits.
namespace sglab::emu::races {

void RaceDetector::visit(ClusterRaces& cluster, const Actor& actor, std::uint64_t address,
                         const Record& record) {
  const std::uint64_t rank = address >> kSharedRankShift;
  if (rank == actor.warp->cta->rank) return;
  const Visit visit{record, address};
  if (cluster.cluster.ctas[rank].live_lanes == 0) return report_exit(visit, cluster.exits[rank]);
  cluster.visits[rank][record.slot] = visit;
}

void RaceDetector::exited(const Actor& actor) {
  const Cta& cta = *actor.warp->cta;
  if (cta.live_lanes != 0) return;
  ClusterRaces& cluster = state(actor);
  cluster.exits[cta.rank] = party(actor);
  for (const auto& [slot, visit] : cluster.visits[cta.rank]) {
    if (!cluster.threads.known_to(cta, slot, visit.record.clock, visit.record.lanes))
      report_exit(visit, cluster.exits[cta.rank]);
  }
}

void RaceDetector::report_exit(const Visit& visit, const Party& exit) {
  Finding finding;
  finding.detector = "races";
  finding.kind = "peer_exited";
  finding.message = "shared memory of another CTA is touched, and nothing orders that before that CTA exits";
  finding.at = party_of(visit.record, kNoLane);
  finding.other = exit;
  finding.other_did = "exited";
  finding.space = "shared";
  finding.address = visit.address;
  finding.bytes = 4;
  findings.report(std::move(finding));
}

}  // namespace sglab::emu::races
