#pragma once

#include <cstdint>

namespace sglab::bindings {

// CUlaunchConfig, as far as the stream.
struct Configuration {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
};

using LaunchKernelEx = int (*)(const Configuration*, void* function, void** parameters, void** extra);
using SetCurrent = int (*)(void* context);

template <typename T>
T pointer(std::uintptr_t address) {
  return reinterpret_cast<T>(address);
}

}  // namespace sglab::bindings
