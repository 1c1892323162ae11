#include "bindings/emulator.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/effects.hpp"
#include "bindings/errors.hpp"
#include "bindings/events.hpp"
#include "bindings/modules.hpp"
#include "bindings/sanitize.hpp"
#include "bindings/session.hpp"
#include "isa/table.hpp"
#include "machine/engine/device_heap.hpp"
#include "machine/scheduler/run_launch.hpp"
#include "observe/sanitize/explain.hpp"
#include "observe/sanitize/sanitizer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::emu {
namespace {

struct PyMachine {
  std::string arch;
  std::uint32_t sms, threads;
  std::string scheduler;
  std::uint64_t seed;
  SmLimits sm;

  PyMachine(std::string arch_, std::uint32_t sms_, std::uint32_t threads_, std::string scheduler_,
            std::uint64_t seed_, std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> sm_)
      : arch(std::move(arch_)),
        sms(sms_),
        threads(threads_),
        scheduler(std::move(scheduler_)),
        seed(seed_),
        sm{std::get<0>(sm_), std::get<1>(sm_), std::get<2>(sm_)} {
    policy();
    if (sms == 0) throw nb::value_error("sms must be at least 1");
  }

  Policy policy() const {
    if (scheduler == "fair") return Policy::kFair;
    if (scheduler == "random") return Policy::kRandom;
    if (scheduler == "adversarial") return Policy::kAdversarial;
    if (scheduler == "in_order") return Policy::kInOrder;
    throw nb::value_error("scheduler must be 'fair', 'random', 'adversarial' or 'in_order'");
  }

  using Allocations = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>>;
  LaunchConfig configure(Extent grid, Extent block, Extent cluster, std::uint32_t smem,
                         const nb::bytes& params, const Allocations& allocations,
                         std::uint64_t max_instructions, std::shared_ptr<Sanitizer> sanitizer) const {
    LaunchConfig config;
    config.grid = grid;
    config.block = block;
    config.cluster = cluster;
    config.dynamic_shared = smem;
    const auto* const bytes = static_cast<const std::uint8_t*>(params.data());
    config.parameters.assign(bytes, bytes + params.size());
    for (const auto& [address, size, name] : allocations)
      config.allocations.push_back({address, address + size, name});
    config.max_instructions = max_instructions;
    config.policy = policy();
    config.seed = seed;
    config.sms = sms;
    config.sm = sm;
    config.threads = std::max(threads, 1u);
    if (sanitizer != nullptr) {
      config.explainer = sanitizer;
    } else {
      config.explainer = std::make_shared<const Explanations>();
    }
    config.observer = std::move(sanitizer);
    return config;
  }

  LaunchReport launch(const bindings::PyKernel& kernel, Extent grid, Extent block, Extent cluster,
                      std::uint32_t smem, const nb::bytes& params, const Allocations& allocations,
                      std::uint64_t max_instructions, std::shared_ptr<Sanitizer> sanitizer,
                      std::uint32_t most_threads) const {
    LaunchConfig config =
        configure(grid, block, cluster, smem, params, allocations, max_instructions, std::move(sanitizer));
    config.threads_if_apart = threads == 0;
    if (threads == 0) config.threads = std::max(most_threads, 1u);
    const std::shared_ptr<const Program> program = kernel.program;
    const nb::gil_scoped_release release;
    return run_launch(*program, std::move(config), bindings::check_signals);
  }

  nb::tuple record(const bindings::PyKernel& kernel, Extent grid, Extent block, Extent cluster,
                   std::uint32_t smem, const nb::bytes& params, const Allocations& allocations,
                   std::uint64_t max_instructions, std::shared_ptr<Sanitizer> sanitizer, bool details) const {
    LaunchConfig config =
        configure(grid, block, cluster, smem, params, allocations, max_instructions, std::move(sanitizer));
    EventLog log;
    LaunchReport report;
    {
      const nb::gil_scoped_release release;
      report = record_launch(*kernel.program, std::move(config), details, bindings::check_signals, log);
    }
    return nb::make_tuple(nb::cast(std::move(report)), bindings::event_columns(*kernel.program, log));
  }

  nb::tuple nans(const bindings::PyKernel& kernel, Extent grid, Extent block, Extent cluster,
                 std::uint32_t smem, const nb::bytes& params, const Allocations& allocations,
                 std::uint64_t max_instructions, std::shared_ptr<Sanitizer>, const nb::dict& kinds,
                 const std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>>& tensors,
                 const std::string& copied, bool infinite, std::size_t most) const {
    const Program& program = *kernel.program;
    LaunchConfig config =
        configure(grid, block, cluster, smem, params, allocations, max_instructions, nullptr);
    const ElementType element = copied == "bf16"  ? ElementType::kBf16
                                : copied == "f32" ? ElementType::kF32
                                                  : ElementType::kF16;
    std::vector<FloatTypes::Tensor> typed;
    for (const auto& [begin, bytes, name] : tensors) typed.push_back({begin, bytes, float_kind(name)});
    const auto recorder = std::make_shared<NanRecorder>(program, bindings::float_kinds(program, kinds),
                                                        std::move(typed), element, infinite, most);
    config.observer = recorder;
    LaunchReport report;
    {
      const nb::gil_scoped_release release;
      report = run_launch(program, std::move(config), bindings::check_signals);
    }
    return nb::make_tuple(nb::cast(std::move(report)), bindings::nan_columns(program, recorder->log()));
  }

  nb::object session(const bindings::PyKernel& kernel, Extent grid, Extent block, Extent cluster,
                     std::uint32_t smem, const nb::bytes& params, const Allocations& allocations,
                     std::uint64_t max_instructions, std::shared_ptr<Sanitizer> sanitizer) const {
    return bindings::make_session(kernel.program, configure(grid, block, cluster, smem, params, allocations,
                                                            max_instructions, std::move(sanitizer)));
  }
};

nb::dict by_class(const LaunchReport& report) {
  nb::dict counts;
  for (std::size_t i = 0; i < report.by_class.size(); ++i) {
    if (report.by_class[i] != 0) counts[class_name(static_cast<InstClass>(i))] = report.by_class[i];
  }
  return counts;
}

}  // namespace
}  // namespace sglab::emu

void sglab::bindings::register_emulator(nb::module_& module) {
  using namespace sglab::emu;
  register_errors(module);

  register_modules(module);
  nb::class_<LaunchReport>(module, "LaunchReport", nb::dynamic_attr())
      .def_ro("warp_instructions", &LaunchReport::warp_instructions)
      .def_prop_ro("by_class", by_class)
      .def_ro("executions", &LaunchReport::executions, "How often each decoded instruction ran.")
      .def_prop_ro(
          "output", [](const LaunchReport& r) { return bindings::printed(r.output); },
          "What the kernel printed; of more than a megabyte the last.")
      .def_prop_ro(
          "warnings", [](const LaunchReport& r) { return bindings::warning_rows(r.warnings); },
          "As rows of Sanitizer.findings().")
      .def_prop_ro(
          "tally", [](const LaunchReport& r) { return bindings::tally_rows(r.tally.get()); },
          "Of a launch with sanitizers; see sglab.events.cast.")
      .def_ro("threads", &LaunchReport::threads, "Of the host that ran it.")
      .def_ro("seconds", &LaunchReport::seconds)
      .def("__repr__", [](nb::handle self) {
        const auto& report = nb::cast<const LaunchReport&>(self);
        const std::size_t found =
            nb::hasattr(self, "findings") ? nb::len(nb::object(self.attr("findings"))) : 0;
        return "<LaunchReport: " + std::to_string(report.warp_instructions) + " warp-instructions, " +
               (found == 0   ? std::string("no findings")
                : found == 1 ? std::string("1 finding")
                             : std::to_string(found) + " findings") +
               ">";
      });
  module.def(
      "resize_device_heap", [](std::uint64_t bytes) { return DeviceHeap::get().resize(bytes); }, "bytes"_a,
      "How large the heap of malloc in kernels will be. False: it has memory and is of another size.");
  module.def(
      "reset_device_heap", [] { DeviceHeap::get().reset(); },
      "Takes back all that kernels allocated and did not free.");
  module.def(
      "device_heap_use",
      [] {
        const DeviceHeap::Use use = DeviceHeap::get().use();
        return std::pair(use.blocks, use.bytes);
      },
      "Blocks and bytes that kernels allocated and did not free.");
  module.def("demangled", &demangled, "mangled"_a, "A C++ name as its source has it; any other as it is.");
  module.def("shown_name", &shown_name, "mangled"_a, "The same, but cut after 120 characters.");

  bindings::register_sanitizer(module);
  nb::class_<PyMachine>(module, "Machine", "An emulated GPU.")
      .def(nb::init<std::string, std::uint32_t, std::uint32_t, std::string, std::uint64_t,
                    std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>>(),
           "arch"_a, "sms"_a, "threads"_a = 1, "scheduler"_a = "fair", "seed"_a = 0,
           "sm"_a = std::tuple(SmLimits{}.threads, SmLimits{}.ctas, SmLimits{}.shared),
           "threads: of the host; 0 leaves open how many, for kernels whose clusters cannot notice each "
           "other.\n"
           "sm: threads, CTAs and bytes of shared memory that an SM holds at once.")
      .def_ro("arch", &PyMachine::arch)
      .def_ro("sms", &PyMachine::sms)
      .def_ro("threads", &PyMachine::threads)
      .def_ro("scheduler", &PyMachine::scheduler)
      .def_ro("seed", &PyMachine::seed)
      .def("launch", &PyMachine::launch, "kernel"_a, "grid"_a, "block"_a, "cluster"_a, "smem"_a, "params"_a,
           "allocations"_a, "max_instructions"_a = 0, "sanitizer"_a = nb::none(), "most_threads"_a = 1,
           "most_threads: where the machine leaves their number open.")
      .def("record", &PyMachine::record, "kernel"_a, "grid"_a, "block"_a, "cluster"_a, "smem"_a, "params"_a,
           "allocations"_a, "max_instructions"_a, "sanitizer"_a.none(), "details"_a,
           "Launches on one host thread; returns the report and the columns of the event log.")
      .def("nans", &PyMachine::nans, "kernel"_a, "grid"_a, "block"_a, "cluster"_a, "smem"_a, "params"_a,
           "allocations"_a, "max_instructions"_a, "sanitizer"_a.none(), "kinds"_a, "tensors"_a, "copied"_a,
           "infinite"_a, "most"_a, "Launches on one host thread; returns the report and where NaN was met.")
      .def("session", &PyMachine::session, "kernel"_a, "grid"_a, "block"_a, "cluster"_a, "smem"_a, "params"_a,
           "allocations"_a, "max_instructions"_a = 0, "sanitizer"_a = nb::none(),
           "The launch, not run but under control.");
  bindings::register_session(module);

  bindings::register_effects(module);
}
