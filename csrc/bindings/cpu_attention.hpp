#pragma once

#include <nanobind/nanobind.h>

namespace sglab::bindings {

void register_cpu_attention(nanobind::module_& module);

}  // namespace sglab::bindings
