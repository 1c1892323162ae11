// Rings as the mma warp sees them: what it reads is free again, and what it makes is there, once its products
// are complete. So a commit arrives for it, in both CTAs of the pair.
#pragma once

#include "../ptx/tcgen05.cuh"
#include "../ring.cuh"

namespace pipeline {

template <int N>
struct MmaRing : Ring<N, From::kCluster> {
  __device__ void release() {
    ptx::tcgen05_commit(this->empty[this->index]);
    this->advance();
  }
};

}  // namespace pipeline
