#include "bindings/moved_launches.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "bindings/driver_launch.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {
namespace {

constexpr std::size_t kMapBytes = 128;
constexpr std::size_t kMostMaps =
    1024;                        // remembered for one place among the parameters; then all are forgotten
constexpr int kUnknownMap = -1;  // no CUresult is negative

using MapBytes = std::array<std::byte, kMapBytes>;
using Place = std::tuple<std::size_t, std::size_t, std::uint64_t>;    // (offset, tensor, bytes into it)
using Missing = std::tuple<std::size_t, std::size_t, std::uint64_t>;  // (launch, which of its maps, address)

struct Map {
  Place place;
  std::unordered_map<std::uint64_t, MapBytes> encoded;  // by address
};

struct Launch {
  Configuration* configuration;
  void* function;
  std::vector<std::byte> buffer;
  std::vector<void*> parameters;  // into the buffer
  std::vector<Place> pointers;
  std::vector<Map> maps;
};

// Launches that were packed once, made one after another with other tensors' addresses among their arguments.
class MovedLaunches {
 public:
  MovedLaunches(std::uintptr_t launch, std::uintptr_t set_current, std::uintptr_t context,
                std::size_t tensors)
      : launch_(pointer<LaunchKernelEx>(launch)),
        set_current_(pointer<SetCurrent>(set_current)),
        context_(pointer<void*>(context)),
        tensors_(tensors) {}

  void add(std::uintptr_t configuration, std::uintptr_t function, const nb::bytes& packed,
           const std::vector<std::size_t>& offsets, std::vector<Place> pointers,
           const std::vector<Place>& maps) {
    Launch made{
        pointer<Configuration*>(configuration), pointer<void*>(function), {}, {}, std::move(pointers), {}};
    const auto* bytes = static_cast<const std::byte*>(packed.data());
    made.buffer.assign(bytes, bytes + packed.size());
    for (const Place& place : made.pointers) require_inside(place, sizeof(std::uint64_t), packed.size());
    for (const Place& place : maps) {
      require_inside(place, kMapBytes, packed.size());
      made.maps.push_back({place, {}});
    }
    for (const std::size_t offset : offsets) {
      if (offset >= packed.size()) throw std::invalid_argument("a parameter begins behind the packed ones");
      made.parameters.push_back(made.buffer.data() + offset);
    }
    const std::lock_guard held(mutex_);
    launches_.push_back(std::move(made));
  }

  void know(std::size_t launch, std::size_t map, std::uint64_t address, const nb::bytes& encoded) {
    if (encoded.size() != kMapBytes) throw std::invalid_argument("a tensor map has 128 bytes");
    const std::lock_guard held(mutex_);
    auto& known = launches_.at(launch).maps.at(map).encoded;
    if (known.size() >= kMostMaps) known.clear();
    std::memcpy(known[address].data(), encoded.data(), kMapBytes);
  }

  std::vector<Missing> missing(const std::vector<std::uint64_t>& addresses) {
    require_all(addresses);
    std::vector<Missing> found;
    const std::lock_guard held(mutex_);
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      for (std::size_t j = 0; j < launches_[i].maps.size(); ++j) {
        const Map& map = launches_[i].maps[j];
        if (const auto address = moved(map.place, addresses); !map.encoded.contains(address))
          found.emplace_back(i, j, address);
      }
    }
    return found;
  }

  // The driver's first status that is no success; kUnknownMap, with nothing launched, where a map is missing.
  int run(const std::vector<std::uint64_t>& addresses, std::uintptr_t stream) {
    require_all(addresses);
    const nb::gil_scoped_release released;
    const std::lock_guard held(mutex_);  // after the GIL, for a launch waits where the stream's queue is full
    for (Launch& each : launches_)
      if (!place(each, addresses)) return kUnknownMap;
    if (const int status = set_current_(context_)) return status;
    for (Launch& each : launches_) {
      each.configuration->stream = pointer<void*>(stream);
      if (const int status = launch_(each.configuration, each.function, each.parameters.data(), nullptr))
        return status;
    }
    return 0;
  }

 private:
  static std::uint64_t moved(const Place& place, const std::vector<std::uint64_t>& addresses) {
    return addresses[std::get<1>(place)] + std::get<2>(place);
  }

  static bool place(Launch& launch, const std::vector<std::uint64_t>& addresses) {
    for (const Place& each : launch.pointers) {
      const std::uint64_t address = moved(each, addresses);
      std::memcpy(launch.buffer.data() + std::get<0>(each), &address, sizeof address);
    }
    return std::ranges::all_of(launch.maps, [&](const Map& map) {
      const auto found = map.encoded.find(moved(map.place, addresses));
      if (found == map.encoded.end()) return false;
      std::memcpy(launch.buffer.data() + std::get<0>(map.place), found->second.data(), kMapBytes);
      return true;
    });
  }

  void require_inside(const Place& place, std::size_t bytes, std::size_t size) const {
    const auto [offset, tensor, into] = place;
    if (offset > size || size - offset < bytes)
      throw std::invalid_argument("an address lies behind the packed parameters");
    if (tensor >= tensors_) throw std::invalid_argument("an address of a tensor that is not there");
  }

  void require_all(const std::vector<std::uint64_t>& addresses) const {
    if (addresses.size() != tensors_) throw std::invalid_argument("an address for each tensor");
  }

  LaunchKernelEx launch_;
  SetCurrent set_current_;
  void* context_;
  std::size_t tensors_;
  std::mutex mutex_;
  std::vector<Launch> launches_;
};

}  // namespace

void register_moved_launches(nb::module_& module) {
  nb::class_<MovedLaunches>(module, "MovedLaunches",
                            "A driver's launches that were packed once, made with other tensors' addresses.")
      .def(nb::init<std::uintptr_t, std::uintptr_t, std::uintptr_t, std::size_t>(), "launch"_a,
           "set_current"_a, "context"_a, "tensors"_a,
           "Addresses of cuLaunchKernelEx, of cuCtxSetCurrent, the context; how many tensors.")
      .def("add", &MovedLaunches::add, "configuration"_a, "function"_a, "packed"_a, "offsets"_a, "pointers"_a,
           "maps"_a,
           "One more launch: packed parameters, where each begins, and where addresses and tensor maps of "
           "tensors are "
           "among them, (offset, tensor, bytes into it). The configuration must live as long as this.")
      .def("know", &MovedLaunches::know, "launch"_a, "map"_a, "address"_a, "encoded"_a,
           "The tensor map for memory at an address.")
      .def("missing", &MovedLaunches::missing, "addresses"_a,
           "(launch, map, address) of tensor maps that are not known.")
      .def("run", &MovedLaunches::run, "addresses"_a, "stream"_a,
           "Make all launches, the tensors at these addresses: the first CUresult that is no success; -1, "
           "with nothing "
           "launched, if a tensor map is not known.");
}

}  // namespace sglab::bindings
