#pragma once

#include "runtime/launcher.hpp"

namespace sglab::runtime {

// Runs a launch on the emulator inside this library: for programs that nothing supervises.
// `user` points to the number of threads to use.
const char* launch_on_emulator(const SglabLaunch* request, void* user);

}  // namespace sglab::runtime
