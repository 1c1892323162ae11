#pragma once

#include <nanobind/nanobind.h>

namespace sglab::bindings {

void register_moved_launches(nanobind::module_& module);

}  // namespace sglab::bindings
