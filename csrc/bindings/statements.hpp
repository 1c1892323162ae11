#pragma once

#include <nanobind/nanobind.h>

#include "machine/program/program.hpp"

namespace sglab::bindings {

// (mnemonic, [registers of each operand]) of every statement of a kernel and the functions it calls. Without
// guards, addresses' registers and predicates.
nanobind::list statements(const emu::Program& program);

// Registers declared with 16 bits.
nanobind::list half_registers(const emu::Program& program);

}  // namespace sglab::bindings
