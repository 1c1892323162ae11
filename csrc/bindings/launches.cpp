#include "bindings/launches.hpp"

#include <cstdint>
#include <vector>

#include "bindings/driver_launch.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {
namespace {

// One launch after another in a context, each with the arguments it is given.
class Launcher {
 public:
  Launcher(std::uintptr_t launch, std::uintptr_t set_current, std::uintptr_t context)
      : launch_(pointer<LaunchKernelEx>(launch)),
        set_current_(pointer<SetCurrent>(set_current)),
        context_(pointer<void*>(context)) {}

  // The driver's status.
  int run(std::uintptr_t configuration, std::uintptr_t function, std::uintptr_t parameters,
          std::uintptr_t stream) const {
    const nb::gil_scoped_release released;
    if (const int status = set_current_(context_)) return status;
    auto* const sizes = pointer<Configuration*>(configuration);
    sizes->stream = pointer<void*>(stream);
    return launch_(sizes, pointer<void*>(function), pointer<void**>(parameters), nullptr);
  }

 private:
  LaunchKernelEx launch_;
  SetCurrent set_current_;
  void* context_;
};

// Launches whose arguments stand ready in their owner's memory: what is left of each is the driver's own
// call.
class Launches {
 public:
  explicit Launches(std::uintptr_t launch) : launch_(pointer<LaunchKernelEx>(launch)) {}

  void add(std::uintptr_t configuration, std::uintptr_t function, std::uintptr_t parameters,
           std::uintptr_t extra) {
    launches_.push_back({pointer<Configuration*>(configuration), pointer<void*>(function),
                         pointer<void**>(parameters), pointer<void**>(extra)});
  }

  // The driver's first status that is no success, and how many launches were made.
  nb::tuple run(std::uintptr_t stream) const {
    int status = 0;
    std::size_t made = 0;
    {
      const nb::gil_scoped_release released;
      for (; made < launches_.size() && status == 0; ++made) {
        const Launch& each = launches_[made];
        each.configuration->stream = pointer<void*>(stream);
        status = launch_(each.configuration, each.function, each.parameters, each.extra);
      }
    }
    return nb::make_tuple(status, status == 0 ? made : made - 1);
  }

  std::size_t size() const { return launches_.size(); }

 private:
  struct Launch {
    Configuration* configuration;
    void* function;
    void** parameters;
    void** extra;
  };
  LaunchKernelEx launch_;
  std::vector<Launch> launches_;
};

}  // namespace

void register_launches(nb::module_& module) {
  nb::class_<Launcher>(module, "Launcher", "The driver's own call for a launch, in one context.")
      .def(nb::init<std::uintptr_t, std::uintptr_t, std::uintptr_t>(), "launch"_a, "set_current"_a,
           "context"_a, "Addresses of cuLaunchKernelEx, of cuCtxSetCurrent, and the context.")
      .def("run", &Launcher::run, "configuration"_a, "function"_a, "parameters"_a, "stream"_a,
           "Launch once; the CUresult. Addresses, as cuLaunchKernelEx takes them.");
  nb::class_<Launches>(module, "Launches", "Kernel launches of a GPU's driver, made one after another.")
      .def(nb::init<std::uintptr_t>(), "launch"_a, "Address of cuLaunchKernelEx.")
      .def("add", &Launches::add, "configuration"_a, "function"_a, "parameters"_a, "extra"_a,
           "Addresses, as cuLaunchKernelEx takes them; they must live as long as this.")
      .def("run", &Launches::run, "stream"_a,
           "Make all launches on a stream; (CUresult, how many succeeded), up to the first that fails.")
      .def("__len__", &Launches::size);
}

}  // namespace sglab::bindings
