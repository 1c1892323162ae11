#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "observe/sanitize/detector.hpp"
#include "observe/sanitize/shadow.hpp"

namespace sglab::emu {

// Bytes of global memory that grids touched.
class TouchedBytes {
 public:
  void add(std::uint64_t address, std::uint64_t bytes);
  bool any(std::uint64_t address, std::uint64_t bytes) const;

 private:
  static constexpr std::uint64_t kPage = 65536;         // so large that a tile's rows share one
  std::unordered_map<std::uint64_t, ByteFlags> pages_;  // by address / kPage
  std::uint64_t last_ = ~std::uint64_t{0};              // its flags:
  ByteFlags* flags_ = nullptr;
  std::uint64_t begin_ = 0, end_ = 0;  // bytes side by side that were added last
};

struct GridMemory {
  TouchedBytes reads, writes;
};

// The launches of a device, for those that may overlap the one before them.
class GridHistory {
 public:
  std::shared_ptr<const GridMemory> latest = std::make_shared<GridMemory>();
};

// Of a programmatic dependent launch: accesses that come before griddepcontrol.wait and touch what the launch
// before it touches ("missing_griddepcontrol_wait"). A warp counts as having waited once one of its threads
// has, or once it met another that has, at a barrier. PTX ISA, "griddepcontrol".
class GridDependency final : public Detector {
 public:
  // `overlaps`: the launch may start while the one before it runs.
  GridDependency(Findings& findings, std::shared_ptr<GridHistory> history, bool overlaps);

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
  void touch(const Actor& actor, std::uint64_t address, std::uint64_t bytes, bool reads, bool writes,
             bool early);

  std::shared_ptr<GridHistory> history_;
  std::shared_ptr<const GridMemory> before_;  // of the launch before; null: this one does not overlap it
  std::shared_ptr<GridMemory> mine_;
  std::unordered_map<std::uint64_t, Waits> clusters_;  // by Cluster::index
  std::uint64_t last_ = 0;                             // whose waits these are:
  Waits* waits_ = nullptr;
};

}  // namespace sglab::emu
