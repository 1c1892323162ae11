#pragma once

#include <nanobind/nanobind.h>

namespace sglab::bindings {

// Module, Kernel and Machine.
void register_emulator(nanobind::module_& module);

}  // namespace sglab::bindings
