#pragma once

#include <nanobind/nanobind.h>

#include "observe/record/events.hpp"

namespace sglab::bindings {

// Columns as numpy arrays: "events", "accesses", "barriers" and "waits", each a dict by name.
nanobind::dict event_columns(const emu::Program& program, const emu::EventLog& log);

}  // namespace sglab::bindings
