#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "machine/engine/observer.hpp"
#include "observe/sanitize/detector.hpp"
#include "observe/sanitize/explain.hpp"

namespace sglab::emu {

class BarrierSanitizer;
class GridHistory;
struct Joins;
class MarkedMemory;
class MemorySanitizer;
class WgmmaRegisters;

// Follows a launch and says what happens in the terms of detector.hpp, for its detectors. A launch has it as
// LaunchConfig::observer and, since it knows who has arrived where, as LaunchConfig::explainer.
class Sanitizer final : public Observer, public Explanations {
 public:
  struct Detectors {
    bool memory = false, races = false, tensor = false, barriers = false;
  };
  // `overlaps`: the launch may start while the one before it, the latest of `grids`, still runs.
  explicit Sanitizer(Detectors detectors, std::shared_ptr<MarkedMemory> marked = nullptr,
                     std::shared_ptr<GridHistory> grids = nullptr, bool overlaps = false);
  ~Sanitizer();
  Sanitizer(const Sanitizer&) = delete;

  Findings& findings() { return findings_; }

  void launched(const Launch& launch) override;
  void cluster_started(const Cluster& cluster) override;
  void cluster_finished(const Cluster& cluster) override;
  void failed(const Fault& fault) override;
  void warned(const Warp& warp, const Inst* inst, const Warning& warning) override;
  bool follows_instructions() const override { return true; }
  Followed* followed() override { return &followed_; }
  void attempting(const Warp& warp, const Inst* inst) override;
  void attempted(const Warp& warp, const Inst* inst, const Inst* next) override;
  void issued(const Cluster& cluster, const AsyncOperation& operation) override;
  void performed(const Cluster& cluster, const AsyncOperation& operation) override;
  void mbarrier_changed(const Cluster& cluster, const MbarrierChange& change) override;

 protected:
  const BarrierSanitizer* history() const override { return barriers_; }

 private:
  // What is known of a running cluster.
  struct Held {
    std::vector<Actor> operations;                                // issuers, by number
    std::vector<std::pair<std::uint32_t, std::uint64_t>> phases;  // of mbarriers, by address, rising
    auto phase_of(std::uint32_t address) {
      return std::lower_bound(phases.begin(), phases.end(), std::pair{address, std::uint64_t{0}});
    }
  };
  enum Watch : std::uint8_t { kEvents = 1, kWgmmaRegisters = 2, kParts = 4, kMeets = 8 };
  // Operands of the instruction being executed, as it found them.
  struct Before {
    bool watched;                // it is more than computing, or its registers are being followed
    std::uint32_t lanes, group;  // that execute it; before the guard
    std::uint32_t live;
    std::uint32_t meeting;  // lanes that have met at several .sync instructions; 0: at one
    bool arriving;
    std::uint64_t phase;
    std::uint32_t number;
    std::uint32_t threads;
    TmemRange tmem;
    std::uint64_t address[32], second[32];
  };
  void look(const Warp& warp, const Inst* inst, const Effects& effects, std::uint32_t lanes);
  void look_at_barrier(const Warp& warp, const Inst* inst);
  void look_at_tmem(const Warp& warp, const Inst* inst, const Effects& effects, std::uint32_t lanes);
  void part_or_meet(const Warp& warp, const Inst* inst, std::uint32_t pc);
  void notify(const Actor& actor, const Effects& effects);
  void notify_access(const Actor& actor, const Effects& effects);
  void notify_tile(const Actor& actor, const Effects& effects);
  void notify_clear(const Actor& actor);
  void notify_by_aperture(const Actor& actor, const std::uint64_t* address, std::uint32_t lanes,
                          std::uint32_t bytes, bool reads, bool writes);
  void notify_one_access(const Actor& actor, Space space, const std::uint64_t* address, std::uint32_t lanes,
                         std::uint32_t bytes, bool reads, bool writes);
  std::uint32_t inside(const Warp& warp, const Access& access);
  void notify_mbarrier_wait(const Actor& actor, const Effects& effects);
  void notify_map_use(const Actor& actor);
  void notify_maps(const Actor& actor, const Effects& effects);
  void notify_tmem(const Actor& actor, const Effects& effects);
  Party party(const WaitLink& link) const;
  std::uint64_t position() const { return followed_.count; }
  void follow();
  Actor actor_of(const Cluster& cluster, const Issuer& issuer, std::uint32_t lanes);
  template <class Event>
  void all(Event event) {
    for (const auto& detector : detectors_) event(*detector);
  }

  Followed followed_;
  Findings findings_{followed_.count};
  std::vector<std::unique_ptr<Detector>> detectors_;
  MemorySanitizer* memory_ = nullptr;  // among them
  BarrierSanitizer* barriers_ = nullptr;
  WgmmaRegisters* wgmma_ = nullptr;
  const Joins* joins_ = nullptr;  // of the program, if barriers are followed
  const Launch* launch_ = nullptr;
  const Program* program_ = nullptr;
  Held& held(const Cluster& cluster) {
    if (held_index_ != cluster.index) {
      held_index_ = cluster.index;
      held_ = &clusters_[cluster.index];
    }
    return *held_;
  }
  std::unordered_map<std::uint64_t, Held> clusters_;  // by Cluster::index
  std::uint64_t held_index_ = ~std::uint64_t{0};
  Held* held_ = nullptr;                    // of the cluster held_index_
  const Allocation* allocation_ = nullptr;  // that held the last access to global memory
  Before before_;
  Footprint footprint_;              // of the operation being observed
  bool thinned_ = false;             // some warp has run on without lanes that have exited
  std::vector<std::uint8_t> watch_;  // by instruction: Watch, whatever its registers hold
};

}  // namespace sglab::emu
