#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "machine/front/error.hpp"

namespace sglab::bindings {

// PTX text that failed to parse, with the name it goes by.
struct NamedPtxError {
  emu::PtxError error;
  std::string source;
};

// PtxError and LaunchFault, as which the emulator's exceptions reach Python.
void register_errors(nanobind::module_& module);

}  // namespace sglab::bindings
