#pragma once

#include <nanobind/nanobind.h>

namespace sglab::bindings {

void register_timing(nanobind::module_& module);

}  // namespace sglab::bindings
