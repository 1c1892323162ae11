#pragma once

#include <cstddef>

namespace sglab::emu {

// Follows turns of a worker's clusters that end because no warp can continue, unless another cluster changes
// memory that one looks at whenever its mbarrier.try_wait gives up.
class Rest {
 public:
  // So many turns of each cluster, in a row and without any event, are taken for the end.
  static constexpr std::size_t kTurns = 256;

  std::size_t turns() const { return turns_; }
  // A cluster could continue, has ended or has started.
  void over() { turns_ = 0; }
  // `events`: whether there were any (Cluster::events) before.
  void note(bool events) { turns_ = events ? 0 : turns_ + 1; }

 private:
  std::size_t turns_ = 0;
};

}  // namespace sglab::emu
