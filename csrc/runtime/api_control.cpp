// How sglab sets up the runtime before a host program runs on it.
#include <algorithm>
#include <cstdlib>

#include "runtime/state.hpp"

using namespace sglab::runtime;

SGLAB_CUDA_API void sglab_runtime_set_device(const SglabDevice* device) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.device = *device;
  state.device_name = device->name;
  state.device.name = state.device_name.c_str();
}

SGLAB_CUDA_API void sglab_runtime_set_launcher(SglabLauncher launcher, void* user) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.launcher = launcher;
  state.launcher_data = user;
}

// Whether memory stays readable after cudaFree, for launches that are to be run again:
// sglab_runtime_take_kept hands it over.
SGLAB_CUDA_API void sglab_runtime_keep_freed(int keep) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.keeps_freed = keep != 0;
}

// Fills in up to `capacity` addresses of such memory, which the caller then owns, and returns how many.
SGLAB_CUDA_API std::uint64_t sglab_runtime_take_kept(std::uint64_t* addresses, std::uint64_t capacity) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const std::uint64_t count = std::min<std::uint64_t>(capacity, state.kept.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    addresses[i] = reinterpret_cast<std::uint64_t>(state.kept.back());
    state.kept.pop_back();
  }
  return count;
}

SGLAB_CUDA_API void sglab_runtime_free_kept(std::uint64_t address) {
  std::free(reinterpret_cast<void*>(address));
}

// Whether the host program has this memory from cudaMalloc and has not freed it.
SGLAB_CUDA_API int sglab_runtime_holds(std::uint64_t address, std::uint64_t bytes) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const auto found = state.allocations.find(address);
  return found != state.allocations.end() && found->second >= bytes ? 1 : 0;
}
