#pragma once

#include <nanobind/nanobind.h>

namespace sglab::emu {
struct Program;
}

namespace sglab::bindings {

void register_effects(nanobind::module_& module);

// {pc: (kind, m, n, k, type of A, of B, of D, A is in registers)} of wgmma and mma.sync.
nanobind::dict multiplications(const emu::Program& program);

}  // namespace sglab::bindings
