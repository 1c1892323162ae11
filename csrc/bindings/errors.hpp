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

// What a kernel has printed: bytes that need not be UTF-8.
nanobind::object printed(const std::string& text);

// Whether Ctrl-C was pressed or another signal's handler has raised; takes the GIL.
bool check_signals();

// PtxError and LaunchFault, as which the emulator's exceptions reach Python.
void register_errors(nanobind::module_& module);

}  // namespace sglab::bindings
