#pragma once

#include <nanobind/nanobind.h>

#include "observe/record/events.hpp"
#include "observe/record/nans.hpp"

namespace sglab::bindings {

// Columns as numpy arrays: "events", "accesses", "barriers" and "waits", each a dict by name.
nanobind::dict event_columns(const emu::Program& program, const emu::EventLog& log);

// The same of where NaN was met: "events", "operands", "memory", "truncated", and "registers", names by
// number.
nanobind::dict nan_columns(const emu::Program& program, const emu::NanLog& log);

// By virtual register, from the kinds of registers by their names: "f32", "bf16x2", …
std::vector<emu::FloatKind> float_kinds(const emu::Program& program, const nanobind::dict& kinds);

}  // namespace sglab::bindings
