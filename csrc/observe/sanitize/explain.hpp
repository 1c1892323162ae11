#pragma once

#include <vector>

#include "machine/engine/launch.hpp"

namespace sglab::emu {

class BarrierSanitizer;

// Says of launches that do not end who waits for whom, and which loop ran most often.
class Explanations : public Explainer {
 public:
  void deadlock(const Cluster& cluster, Fault& fault) const override;
  void livelock(const Program& program, const std::vector<std::uint64_t>& executions,
                const std::vector<const Cluster*>& running, Fault& fault) const override;

 protected:
  // Who has arrived at which mbarrier so far; nullptr if that was not followed.
  virtual const BarrierSanitizer* history() const { return nullptr; }
};

}  // namespace sglab::emu
