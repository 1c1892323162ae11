// Waits with names: a ring of buffers between warps that fill it and warps that read it.
//
// Each buffer has two mbarriers. A phase of `full` ends when the buffer has been filled, a phase of `empty`
// when it has been read:
//
//   producer   wait_empty()   fill the buffer   publish()
//   consumer   wait_full()    read the buffer   release()
//
// Where TMA fills it, its bytes end the phase instead of publish(), and the producer only calls advance().
//
// The parity rule. An mbarrier counts its phases from 0, and a wait names a phase by its parity, number mod
// 2: it returns once a phase of that parity is the last one that has ended. Before phase 0 has ended, that is
// the parity of the phase before it, −1: odd. Both sides go round the ring in the same order, and in round n,
// from 0 on,
//
//   the consumer waits for phase n of full       parity n mod 2
//   the producer waits for phase n − 1 of empty  parity (n mod 2) ^ 1: the buffer's readers of the round
//   before are done;
//                                                in round 0 there are none, and the wait returns immediately
//
// so `parity` is the round's, 0 at first, and flips where the ring begins again.
#pragma once

#include <cstdint>

#include "ptx/barrier.cuh"

namespace pipeline {

// Whose threads arrive at a ring's full barriers: this CTA's alone, or those of other CTAs of the cluster,
// too.
enum class From { kCta, kCluster };

// A role's place in a ring of N buffers. Where something else says that a buffer is free, `empty` is null.
template <int N, From kFrom = From::kCta>
struct Ring {
  uint64_t* full;
  uint64_t* empty = nullptr;
  int index = 0;
  uint32_t parity = 0;

  __device__ void wait_full() const {
    if constexpr (kFrom == From::kCluster) {
      ptx::mbarrier_wait_cluster(full[index], parity);
    } else {
      ptx::mbarrier_wait(full[index], parity);
    }
  }
  __device__ void wait_empty() const { ptx::mbarrier_wait(empty[index], parity ^ 1); }

  // The producer has filled the buffer, the consumer has read it. arrives: whether this thread arrives for
  // its warp.
  __device__ void publish(bool arrives) {
    if (arrives) ptx::mbarrier_arrive(full[index]);
    advance();
  }
  __device__ void release(bool arrives) {
    if (arrives) ptx::mbarrier_arrive(empty[index]);
    advance();
  }

  __device__ void advance() {
    if (++index == N) index = 0, parity ^= 1;
  }
};

}  // namespace pipeline
