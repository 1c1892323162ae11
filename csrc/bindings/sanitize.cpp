#include "bindings/sanitize.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "isa/aperture.hpp"
#include "machine/engine/observer.hpp"
#include "machine/engine/tally.hpp"
#include "machine/engine/warning.hpp"
#include "observe/sanitize/grids.hpp"
#include "observe/sanitize/sanitizer.hpp"
#include "observe/sanitize/shadow.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::emu {
namespace {

std::shared_ptr<Sanitizer> make(const std::vector<std::string>& names, bool stops,
                                std::shared_ptr<MarkedMemory> marked, std::shared_ptr<GridHistory> grids,
                                bool overlaps) {
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
  auto sanitizer = std::make_shared<Sanitizer>(detectors, std::move(marked), std::move(grids), overlaps);
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

nb::list sglab::bindings::warning_rows(const std::vector<emu::Warning>& warnings) {
  nb::list all;
  for (const emu::Warning& w : warnings) {
    const emu::Party at{w.cta, w.warp, w.lanes, w.pc};
    all.append(nb::make_tuple("launch", w.kind, w.message, false, emu::party_row(at), nb::none(), "", "", 0,
                              0, nb::make_tuple(0), w.count));
  }
  return all;
}

nb::object sglab::bindings::tally_rows(const emu::Tally* tally) {
  using emu::BarrierUsers;
  if (tally == nullptr) return nb::none();
  constexpr const char* kPurposes[] = {"", "full", "empty"};
  const auto slots = [](const auto& bits) {
    std::vector<std::size_t> all;
    for (std::size_t slot = 0; slot < bits.size(); ++slot) {
      if (bits[slot]) all.push_back(slot);
    }
    return all;
  };
  nb::list barriers;
  const auto add = [&](emu::BarrierKind kind, std::uint32_t rank, std::uint32_t object,
                       const BarrierUsers& users) {
    barriers.append(nb::make_tuple(static_cast<int>(kind), rank, object, slots(users.arrivers),
                                   slots(users.waiters), kPurposes[static_cast<int>(users.purpose)],
                                   users.waits));
  };
  for (const auto& [key, users] : tally->named) add(emu::BarrierKind::kNamed, key.first, key.second, users);
  for (const auto& [address, users] : tally->mbarriers)
    add(emu::BarrierKind::kMbarrier, address >> emu::kSharedRankShift, address, users);
  const auto bytes_of = [](const std::vector<std::uint64_t>& words) {
    return nb::bytes(reinterpret_cast<const char*>(words.data()), 8 * words.size());
  };
  return nb::make_tuple(tally->words, bytes_of(tally->visited), bytes_of(tally->ahead), barriers);
}

void sglab::bindings::register_sanitizer(nb::module_& module) {
  using sglab::emu::Sanitizer;
  nb::class_<Sanitizer>(module, "Sanitizer", "Watches one launch at a time; see sglab.emulator.sanitizers.")
      .def("findings", emu::findings);
  nb::class_<emu::MarkedMemory>(module, "MarkedMemory", "Global memory that counts as not initialised.")
      .def(nb::init<>())
      .def("mark", &emu::MarkedMemory::mark, "address"_a, "nbytes"_a)
      .def("forget", &emu::MarkedMemory::forget, "address"_a, "nbytes"_a);
  nb::class_<emu::GridHistory>(module, "GridHistory",
                               "The global memory that a device's latest launch touched.")
      .def(nb::init<>());
  module.def("sanitizer", emu::make, "detectors"_a, "stops"_a = false, "marked"_a = nb::none(),
             "grids"_a = nb::none(), "overlaps"_a = false);
}
