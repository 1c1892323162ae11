#pragma once

#include <vector>

#include "machine/engine/observer.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {

// Marks the shared memory that instructions are about to write; see Cluster::mark_written. Asynchronous
// writes are marked as they are carried out.
class StoreFollower final : public Observer {
 public:
  explicit StoreFollower(const Program& program);
  bool follows_instructions() const override { return true; }
  void attempting(const Warp& warp, const Inst* inst) override;

 private:
  std::vector<AccessForm> stores_;  // by instruction
};

}  // namespace sglab::emu
