#include "bindings/sanitize.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "emulator/sanitize/sanitizer.hpp"
#include "emulator/sanitize/shadow.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::emu {
namespace {

std::shared_ptr<Sanitizer> make(const std::vector<std::string>& names, bool stops,
                                std::shared_ptr<MarkedMemory> marked) {
  Sanitizer::Detectors detectors;
  for (const std::string& name : names) {
    if (name == "memory") {
      detectors.memory = true;
    } else if (name == "races") {
      detectors.races = true;
    } else if (name == "tensor") {
      detectors.tensor = true;
    } else if (name == "barriers") {
      detectors.barriers = true;
    } else {
      throw nb::value_error(("there is no sanitizer '" + name + "'").c_str());
    }
  }
  auto sanitizer = std::make_shared<Sanitizer>(detectors, std::move(marked));
  sanitizer->findings().stops = stops;
  return sanitizer;
}

nb::object party_row(const Party& p) {
  if (p.cta < 0) return nb::none();
  return nb::make_tuple(p.cta, p.warp, p.lanes, p.pc, p.position, p.asynchronous);
}

nb::list findings(Sanitizer& sanitizer) {
  nb::list all;
  for (const Findings::Kept& kept : sanitizer.findings().all()) {
    const Finding& f = kept.first;
    all.append(nb::make_tuple(f.detector, f.kind, f.message, f.error, party_row(f.at), party_row(f.other),
                              f.other_did, f.space, f.address, f.bytes, kept.positions, kept.count));
  }
  return all;
}

}  // namespace
}  // namespace sglab::emu

void sglab::bindings::register_sanitizer(nb::module_& module) {
  using sglab::emu::Sanitizer;
  nb::class_<Sanitizer>(module, "Sanitizer", "Watches one launch at a time; see sglab.gpu.findings.")
      .def("findings", emu::findings);
  nb::class_<emu::MarkedMemory>(module, "MarkedMemory", "Global memory that counts as not initialised.")
      .def(nb::init<>())
      .def("mark", &emu::MarkedMemory::mark, "address"_a, "nbytes"_a);
  module.def("sanitizer", emu::make, "detectors"_a, "stops"_a = false, "marked"_a = nb::none());
}
