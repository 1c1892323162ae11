#pragma once

#include <nanobind/nanobind.h>

namespace sglab::bindings {

// Module, Kernel, Machine and their errors.
void register_emulator(nanobind::module_& module);

}  // namespace sglab::bindings
