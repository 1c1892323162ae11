#pragma once

#include <nanobind/nanobind.h>

#include <vector>

namespace sglab::emu {
struct Tally;
struct Warning;
}  // namespace sglab::emu

namespace sglab::bindings {

// Of a launch, as rows of Sanitizer.findings().
nanobind::list warning_rows(const std::vector<emu::Warning>& warnings);

// (words per slot; by slot, a bit per instruction: executed, and yet to come; barriers: (kind, CTA rank,
// number or address, slots that arrive, slots that wait, purpose, pcs of waits)); None: not known. See
// sglab.events.cast.
nanobind::object tally_rows(const emu::Tally* tally);

// Sanitizer: what watches a launch, and what it found.
void register_sanitizer(nanobind::module_& module);

}  // namespace sglab::bindings
