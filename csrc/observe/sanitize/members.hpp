#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "observe/sanitize/detector.hpp"

namespace sglab::emu {

// Finds lanes that never come to a .sync instruction whose member mask names them. It waits for those that
// have not exited (PTX ISA), so a lane may leave early; one that goes past it and does what the others do
// afterwards has missed it.
class MissedMembers {
 public:
  explicit MissedMembers(Findings& findings) : findings_(findings) {}

  void launched(const Launch& launch);
  void cluster_finished(const Cluster& cluster);

  // The actor has executed a .sync instruction, for which `all` have come to it or to another one.
  void met(const Actor& actor, std::uint32_t all) {
    if (!passed_.empty()) forget(actor, all);
  }
  // They have done something else that others may notice.
  void acted(const Actor& actor) {
    if (actor.warp->group_count > 1 || !passed_.empty()) follow(actor);
  }

 private:
  struct Place {
    std::uint64_t cluster;  // Cluster::index
    std::uint32_t warp;     // Warp::slot
    std::uint32_t pc;       // what lanes did
    std::uint32_t sync;     // behind this instruction, at which others waited for them
    auto operator<=>(const Place&) const = default;
  };
  struct Pass {
    Party who, waiting;
  };

  void forget(const Actor& actor, std::uint32_t come);
  void follow(const Actor& actor);

  Findings& findings_;
  const Program* program_ = nullptr;
  std::map<Place, Pass> passed_;
};

}  // namespace sglab::emu
