// How sglab sets up the runtime before a host program runs on it.
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
