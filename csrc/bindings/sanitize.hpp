#pragma once

#include <nanobind/nanobind.h>

namespace sglab::bindings {

// Sanitizer: what watches a launch, and what it found.
void register_sanitizer(nanobind::module_& module);

}  // namespace sglab::bindings
