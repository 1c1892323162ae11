#pragma once

#include <unordered_map>
#include <vector>

#include "observe/sanitize/detector.hpp"

namespace sglab::emu {

// Finds misuse of tensor memory and of the tensor cores' operands.
class TensorSanitizer final : public Detector {
 public:
  explicit TensorSanitizer(Findings& findings) : Detector(findings) {}

  void launched(const Launch& launch) override;
  void cluster_started(const Cluster& cluster) override;
  void cluster_finished(const Cluster& cluster) override { states_.erase(cluster.index); }
  void exited(const Actor& actor) override;
  void issued(const Actor& actor, const AsyncOp& op) override;
  void performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) override;
  void tensor_memory(const Actor& actor, const TmemUse& use) override;
  void explain(const Fault& fault, Finding& finding) override;

 private:
  struct Block {
    std::uint32_t column, columns;
    Party alloc, dealloc;  // dealloc.cta < 0: still allocated
  };
  struct CtaState {
    std::vector<Block> blocks;
    Party relinquish;
    Party group[2];  // the first instruction with .cta_group::1, ::2
  };
  struct State {
    std::vector<CtaState> ctas;                          // by rank
    std::unordered_map<std::uint64_t, Actor> in_flight;  // tcgen05 operations, by number
  };
  State& of(const Actor& actor) { return states_[actor.warp->cluster->index]; }
  void check_group(const Actor& actor);
  void check_block(const Actor& actor, const TmemRange& range);
  void explain_tmem(Finding& finding);
  void report(const char* kind, std::string message, const Party& at, const Party& other,
              const char* other_did, std::uint64_t address);

  std::unordered_map<std::uint64_t, State> states_;  // by Cluster::index
  const Launch* launch_ = nullptr;
};

}  // namespace sglab::emu
