#pragma once

#include "runtime/state.hpp"

namespace sglab::runtime {

// Checks a launch as the CUDA runtime does and hands it to the launcher.
Status launch(const void* function, Dim3 grid, Dim3 block, Dim3 cluster, std::size_t smem, void** arguments);

// What the program set cudaLimitMallocHeapSize to; 0: nothing.
std::uint64_t heap_limit();

// The cluster that a launch's attributes ask for; 1 × 1 × 1 where they do not.
Dim3 cluster_of(const LaunchConfig& config);

}  // namespace sglab::runtime
