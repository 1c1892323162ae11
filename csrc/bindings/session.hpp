#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "machine/engine/launch.hpp"

namespace sglab::bindings {

void register_session(nanobind::module_& module);

// A Python Session at the launch's first instruction.
nanobind::object make_session(std::shared_ptr<const emu::Program> program, emu::LaunchConfig config);

// (PTX line, mnemonic, class, [(file, line, column, inlined function)]) of every decoded instruction.
nanobind::list code_rows(const emu::Program& program);

}  // namespace sglab::bindings
