#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "observe/sanitize/detector.hpp"
#include "observe/sanitize/grids.hpp"
#include "observe/sanitize/races/judgement.hpp"
#include "observe/sanitize/races/state.hpp"

namespace sglab::emu::races {

// Races by happens-before, in global, shared and tensor memory.
//
// Threads of execution are strands (strand.hpp): lanes of a warp that know the same. Each asynchronous
// operation is a thread of its own that starts at its issue and ends where its completion is observed. What
// they synchronise with moves vector clocks (clock.hpp); each access is compared with those that the shadow
// of its memory still holds (shadow.hpp, judgement.hpp). So a race is found whether or not it did harm in the
// order that was run, but only between accesses that the run made.
class RaceDetector final : public Detector {
 public:
  RaceDetector(Findings& findings, std::shared_ptr<GridHistory> history);

  void launched(const Launch& launch) override;
  void cluster_started(const Cluster& cluster) override;
  void cluster_finished(const Cluster& cluster) override;
  void exited(const Actor& actor) override;
  void accessed(const Actor& actor, const Access& access) override;
  void map_used(const Actor& actor, const Access& access) override;
  void fenced(const Actor& actor, const Fence& fence) override;
  void warp_synced(const Actor& actor, std::uint32_t all, bool memory) override;
  void arrived(const Actor& actor, const BarrierUse& use) override;
  void passed(const Actor& actor, const BarrierUse& use) override;
  void mbarrier(const Actor& actor, const MbarrierEvent& event) override;
  void mbarrier_passed(const Actor& actor, const MbarrierWait& wait) override;
  void issued(const Actor& actor, const AsyncOp& op) override;
  void performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) override;
  void committed(const Actor& actor, GroupKind group) override;
  void waited(const Actor& actor, GroupKind group, std::uint32_t pending, bool read_only) override;
  void tensor_memory(const Actor& actor, const TmemUse& use) override;

 private:
  ClusterRaces& state(const Actor& actor) {
    const std::uint64_t index = actor.warp->cluster->index;
    if (last_ == nullptr || last_->number != index) last_ = clusters_.find(index)->second.get();
    return *last_;
  }

  // Accesses: accesses.cpp.
  Record record_of(const Actor& actor, const Strand& strand) const;
  void touch_lanes(ClusterRaces& cluster, Judgement& judgement, Shadow::Touch& touch, const Access& access,
                   std::uint32_t lanes);
  std::uint32_t touch_global_row(const Judgement& judgement, const Shadow::Touch& touch,
                                 std::uint64_t address, std::uint32_t lane, std::uint32_t step,
                                 std::uint32_t blocks);
  std::uint32_t touch_shared_row(ClusterRaces& cluster, const Judgement& judgement,
                                 const Shadow::Touch& touch, std::uint64_t address, std::uint32_t lane,
                                 std::uint32_t step, std::uint32_t blocks);
  void touch_bytes(ClusterRaces& cluster, Judgement& judgement, Shadow::Touch& touch, const Range& range);
  std::uint8_t* written(ClusterRaces& cluster, Judgement& judgement, const Range& range);
  void touch_tensor(ClusterRaces& cluster, Judgement& judgement, Shadow::Touch& touch,
                    const TmemRange& range);

  // Other CTAs' shared memory: exits.cpp.
  void visit(ClusterRaces& cluster, const Actor& actor, std::uint64_t address, const Record& record);
  void report_exit(const Visit& visit, const Party& exit);

  // Synchronisation: sync.cpp.
  BarrierViews& barrier_of(ClusterRaces& cluster, const Actor& actor, const BarrierUse& use);
  bool names_cta_scope(const Actor& actor, std::uint32_t address) const;
  void check_initialised(const Actor& actor, const MbarrierViews& object, std::uint32_t address,
                         const View& view);
  void signal(ClusterRaces& cluster, const Actor& actor, MbarrierViews& object, std::uint32_t address);
  void fence_threads(Threads& threads, Strand& strand, const Actor& actor, const Fence& fence);
  void fence_tensor(Threads& threads, Strand& strand, const Actor& actor);
  void synchronise(const Actor& actor, const Access& access);
  void find_at(const Leavings& all, Threads& threads, Strand& strand, const Actor& actor,
               const Access& access);
  void leave_at(Leavings& all, Threads& threads, Strand& strand, const Actor& actor, const Access& access);

  // Asynchronous operations: operations.cpp.
  void place(Threads& threads, const Actor& actor, const AsyncOp& op, Issued& made);
  bool touch_settled(Shadow::Cell* cells, const Range& range, Shadow::Touch& touch);
  void place_copy(ClusterRaces& cluster, const AsyncOp& op, const Range& range, Record& record);
  void perform_tensor(ClusterRaces& cluster, const Actor& actor, const Issued& op,
                      const Footprint& footprint);

  std::shared_ptr<GridHistory> history_;
  std::shared_ptr<LaunchMemory> memory_;  // outlives the clusters that leave theirs
  std::map<std::uint64_t, std::unique_ptr<ClusterRaces>> clusters_;
  ClusterRaces* last_ = nullptr;                      // among them, that was asked for
  std::unordered_map<std::uint64_t, Leavings> left_;  // by global address
};

}  // namespace sglab::emu::races
