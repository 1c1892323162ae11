#pragma once

#include <nanobind/nanobind.h>

namespace sglab::bindings {

// _core.tensor: descriptors, element types, matrix operations and tensor memory, each callable on plain
// arrays.
void register_tensor(nanobind::module_& module);
// _core.tma: tensor maps, box copies, mbarrier words.
void register_tma(nanobind::module_& module);

}  // namespace sglab::bindings
