#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "observe/sanitize/detector.hpp"
#include "observe/sanitize/races/memory.hpp"

namespace sglab::emu {

// The launches of a device, for those that may overlap the one before them.
class GridHistory {
 public:
  // The memory of a launch that begins: the latest from then on.
  std::shared_ptr<races::LaunchMemory> begin();
  std::shared_ptr<const races::LaunchMemory> latest() const;

 private:
  // Memory of an earlier launch.
  struct Spare {
    std::unique_ptr<races::LaunchMemory> take();
    void leave(std::unique_ptr<races::LaunchMemory> over);
    std::mutex mutex;
    std::unique_ptr<races::LaunchMemory> memory;
  };

  mutable std::mutex mutex_;
  std::shared_ptr<const races::LaunchMemory> latest_;
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
};

// Of a programmatic dependent launch: accesses that come before griddepcontrol.wait and touch what the launch
// before it touches ("missing_griddepcontrol_wait"). A warp counts as having waited once one of its threads
// has, or once it met another that has, at a barrier. PTX ISA, "griddepcontrol".
class GridDependency final : public Detector {
 public:
  // `before`: of the launch that this one may overlap.
  GridDependency(Findings& findings, std::shared_ptr<const races::LaunchMemory> before);

  void launched(const Launch& launch) override;
  void cluster_started(const Cluster& cluster) override;
  void cluster_finished(const Cluster& cluster) override;
  void accessed(const Actor& actor, const Access& access) override;
  void map_used(const Actor& actor, const Access& access) override;
  void fenced(const Actor& actor, const Fence& fence) override;
  void passed(const Actor& actor, const BarrierUse& use) override;
  void mbarrier_passed(const Actor& actor, const MbarrierWait& wait) override;
  void issued(const Actor& actor, const AsyncOp& op) override;
  void performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) override;

 private:
  struct Waits {
    bool any = false;
    std::vector<bool> warps;                  // that have waited, by Warp::slot
    std::unordered_set<std::uint64_t> early;  // operations that were issued before
  };
  Waits& of(const Actor& actor);
  void met(const Actor& actor);
  void touch(const Actor& actor, std::uint64_t address, std::uint64_t bytes, bool writes);

  std::shared_ptr<const races::LaunchMemory> before_;
  std::unordered_map<std::uint64_t, Waits> clusters_;  // by Cluster::index
  std::uint64_t last_ = 0;                             // whose waits these are:
  Waits* waits_ = nullptr;
};

}  // namespace sglab::emu
