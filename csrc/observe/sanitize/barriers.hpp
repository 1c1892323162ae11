#pragma once

#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "observe/sanitize/aligned.hpp"
#include "observe/sanitize/detector.hpp"
#include "observe/sanitize/members.hpp"

namespace sglab::emu {

// Who has arrived at an object so far in a launch, and at which instruction: a guess at who will.
struct Arriver {
  std::uint32_t slot;  // of the warp in its cluster
  std::uint32_t pc;
  auto operator<=>(const Arriver&) const = default;
};

// Finds misuse of mbarriers, named barriers and the memory of CTAs that have exited.
class BarrierSanitizer final : public Detector {
 public:
  explicit BarrierSanitizer(Findings& findings)
      : Detector(findings), aligned_(findings), members_(findings) {}

  void launched(const Launch& launch) override;
  void cluster_started(const Cluster& cluster) override;
  void cluster_finished(const Cluster& cluster) override;
  void exited(const Actor& actor) override;
  void accessed(const Actor& actor, const Access& access) override;
  void fenced(const Actor& actor, const Fence& fence) override;
  void warp_synced(const Actor& actor, std::uint32_t all, bool memory) override;
  void arrived(const Actor& actor, const BarrierUse& use) override;
  void passed(const Actor& actor, const BarrierUse& use) override;
  void mbarrier(const Actor& actor, const MbarrierEvent& event) override;
  void mbarrier_passed(const Actor& actor, const MbarrierWait& wait) override;
  void tensor_memory(const Actor& actor, const TmemUse& use) override;
  void waited(const Actor& actor, GroupKind group, std::uint32_t pending, bool read_only) override;
  void issued(const Actor& actor, const AsyncOp& op) override;
  void performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) override;
  void explain(const Fault& fault, Finding& finding) override;

  // Any instruction, once lanes of a warp have exited before others.
  void executed(const Actor& actor) { aligned_.executed(actor); }

  // Lanes go different ways at a branch, or are where these meet again (joins.hpp).
  void parts(const Actor& actor, std::uint32_t join) { aligned_.parts(actor, join); }
  void meets(const Actor& actor) { aligned_.meets(actor); }

  // Arrivals at the mbarrier at an address so far; nullptr: none.
  const std::set<Arriver>* arrivers(const Cluster& cluster, std::uint32_t address) const;

 private:
  // In place of an mbarrier's address: a named barrier has no place in memory.
  static constexpr std::uint32_t kNamed = ~0u;
  struct Object {
    bool alive = false;
    std::uint32_t initialiser = 0;          // slot
    bool published = false;                 // to the initialiser's CTA
    bool fenced = false, released = false;  // for the cluster: the fence, and the arrival after it
    std::set<std::uint64_t> in_flight;      // operations that are to signal it, by number
    std::uint64_t ended = 0;                // State::events when its last phase ended
    bool brought = false;                   // bytes have come in this phase
    Party init, inval, last, arrival, expect, complete;
    std::set<Arriver> arrivers;
  };
  static constexpr std::size_t kPhases = 32;  // of a barrier that are kept apart
  using Pcs = std::pair<std::int64_t, std::int64_t>;
  struct Named {
    std::uint64_t phase = 0;
    std::map<std::uint32_t, Party> arrivals, arrivals_before;  // by slot, of this phase and the one before
    // The first arrival and a later one of a warp in one phase: where first, by their instructions.
    std::map<Pcs, std::pair<Party, Party>> twice;
    std::set<Pcs> again, again_before;          // those of this phase, and of the one before
    std::array<std::uint64_t, kPhases> ends{};  // by phase: State::events at its last arrival
    Party first;
    std::uint32_t first_slot = 0;
    std::map<std::uint32_t, std::uint64_t> total;  // arrivals of each warp, where all threads must come
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<Party, Party>>
        mixed;  // by slots, see check_totals
  };
  using Objects = std::unordered_map<std::uint32_t, Object>;  // by address
  struct State {
    Objects objects;
    std::vector<std::uint8_t> owns;        // by slot: whether for_each_own() may find some
    std::map<std::uint32_t, Named> named;  // by rank * 32 + number
    std::vector<Party> exits;              // the last of each CTA, by rank
    std::uint64_t events = 0;
    std::vector<std::uint64_t> heard;  // by slot: the last event of other warps that a warp may know of
  };
  State& of(const Actor& actor) {
    const std::uint64_t index = actor.warp->cluster->index;
    if (cached_index_ != index) cached_ = &states_[index], cached_index_ = index;
    return *cached_;
  }
  Object& object_at(State& state, std::uint32_t address);
  Named& named_of(const Actor& actor, const BarrierUse& use) {
    const bool cluster = use.number == kClusterBarrierNumber;
    return of(actor).named[(cluster ? 0 : actor.warp->cta->rank * 32) + use.number];
  }
  // Something that other lanes may notice.
  void acted(const Actor& actor) {
    aligned_.acted(actor);
    members_.acted(actor);
  }
  // The objects that this warp has initialised and that are not known to all threads yet.
  template <class F>
  void for_each_own(const Actor& actor, F f) {
    State& state = of(actor);
    const std::uint32_t slot = actor.warp->slot;
    if (state.owns[slot] == 0) return;
    bool left = false;
    for (auto& [address, object] : state.objects) {
      const auto open = [&] { return !(object.published && object.released); };
      if (!object.alive || object.initialiser != slot || !open()) continue;
      f(object);
      left = left || open();
    }
    state.owns[slot] = left;
  }
  void check_use(const Actor& actor, const MbarrierEvent& event, const Object& object);
  void check_replaced(const Actor& actor, const MbarrierEvent& event, const Object& object);
  void check_waited(const Actor& actor, const BarrierUse& use, Named& named);
  void check_same_instruction(const Actor& actor, const BarrierUse& use, Named& named);
  void check_totals(const Named& named);
  void check_apart(const Actor& actor, const BarrierUse& use, Named& named);
  void check_bytes(const Cluster& cluster, std::uint32_t address, const Object& object);
  void hear(const Actor& actor, std::uint64_t event);
  void hear_now(const Actor& actor) { hear(actor, ++of(actor).events); }
  void note(const Actor& actor, const MbarrierEvent& event, Object& object);
  void check_alive(const Actor& actor, std::uint64_t address, bool own_matters, bool reads = false);
  void report(const char* kind, std::string message, const Party& at, const Party& other,
              const char* other_did, std::uint32_t address, bool error = true);

  AlignedLanes aligned_;
  MissedMembers members_;
  std::unordered_map<std::uint64_t, State> states_;  // by Cluster::index
  std::uint64_t cached_index_ = ~std::uint64_t{0};
  State* cached_ = nullptr;                // of the cluster cached_index_
  std::vector<Objects::node_type> spare_;  // of clusters that are over
  Party misuser_, misused_by_;             // of the operation that was refused last
  std::string misuse_, misused_did_;
  std::uint32_t misused_address_ = 0;
};

}  // namespace sglab::emu
