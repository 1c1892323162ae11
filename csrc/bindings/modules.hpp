#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "machine/program/program.hpp"

namespace sglab::bindings {

// One kernel of a module, decoded.
struct PyKernel {
  std::shared_ptr<const emu::Image> image;
  std::shared_ptr<const emu::Program> program;

  const emu::Function& source() const { return image->module().functions[program->source]; }
};

// Module, Kernel and read_header.
void register_modules(nanobind::module_& module);

}  // namespace sglab::bindings
