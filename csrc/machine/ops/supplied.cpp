#include <bit>
#include <cstring>
#include <stdexcept>

#include "machine/engine/device_heap.hpp"
#include "machine/engine/fault.hpp"
#include "machine/ops/call_site.hpp"
#include "machine/ops/printf.hpp"
#include "machine/program/decoder.hpp"

// Functions without a body that the driver supplies: printf, assert and the device heap.
namespace sglab::emu {
namespace {

const Inst* call_printf(Warp& w, const Inst* i) {
  const CallSite& site = payload<CallSite>(i);
  for_lanes(w.mask, [&](int l) {
    print(w, i, l, argument<std::uint64_t>(w, l, site.arguments[0]),
          argument<std::uint64_t>(w, l, site.arguments[1]));
    for (const CallSlot& slot : site.results) std::memset(local_of(w, l) + slot.offset, 0, slot.bytes);
  });
  return i + 1;
}

const Inst* call_assertfail(Warp& w, const Inst* i) {
  const int lane = std::countr_zero(w.mask);
  const CallSite& site = payload<CallSite>(i);
  const auto string = [&](std::size_t k) {
    return read_string(w, i, lane, argument<std::uint64_t>(w, lane, site.arguments[k]));
  };
  raise_fault(w, i, lane, "trap",
              "assertion failed: " + string(0) + " (" + string(1) + ":" +
                  std::to_string(argument<std::uint32_t>(w, lane, site.arguments[2])) + ")");
}

// Lanes take their memory one after the other.
const Inst* call_malloc(Warp& w, const Inst* i) {
  const CallSite& site = payload<CallSite>(i);
  for_lanes(w.mask, [&](int l) {
    std::uint64_t address = 0;
    try {
      address = DeviceHeap::get().allocate(argument<std::uint64_t>(w, l, site.arguments[0]));
    } catch (const std::runtime_error& damage) {
      raise_fault(w, i, l, "device_heap", std::string("malloc: ") + damage.what());
    }
    std::memcpy(local_of(w, l) + site.results[0].offset, &address, sizeof(address));
  });
  return i + 1;
}

const Inst* call_free(Warp& w, const Inst* i) {
  const CallSite& site = payload<CallSite>(i);
  for_lanes(w.mask, [&](int l) {
    const auto address = argument<std::uint64_t>(w, l, site.arguments[0]);
    if (address == 0) return;
    switch (DeviceHeap::get().release(address)) {
      case DeviceHeap::Release::kDone:
        return;
      case DeviceHeap::Release::kFreeAlready:
        raise_fault(w, i, l, "double_free", "free: the block at " + hex(address) + " was freed before");
      case DeviceHeap::Release::kNoBlock:
        raise_fault(w, i, l, "invalid_free",
                    "free: " + hex(address) + " is no block that malloc gave in a kernel");
    }
  });
  return i + 1;
}

// One of them, and the sizes of what it takes.
struct Supplied {
  std::string_view name;
  std::vector<ParameterSlot> arguments, results;
  Handler handler;
  bool uses_heap = false, prints = false;
};

}  // namespace

Handler supplied_function(Builder& b, std::string_view name, const CallSite& site) {
  static const Supplied kFunctions[] = {
      {"vprintf", {{0, 8}, {0, 8}}, {{0, 4}}, call_printf, false, true},
      {"__assertfail", {{0, 8}, {0, 8}, {0, 4}, {0, 8}, {0, 8}}, {}, call_assertfail},
      {"malloc", {{0, 8}}, {{0, 8}}, call_malloc, true},
      {"free", {{0, 8}}, {}, call_free, true},
  };
  for (const Supplied& function : kFunctions) {
    if (function.name != name) continue;
    std::string problem = misfit("argument", site.arguments, function.arguments);
    if (problem.empty()) problem = misfit("result", site.results, function.results);
    if (!problem.empty()) b.refuse("the call does not fit " + std::string(name) + ": " + problem);
    if (function.uses_heap) {
      DeviceHeap::get().require();
      b.decoder().program().uses_device_heap = true;
    }
    if (function.prints) b.decoder().program().clusters_meet = true;
    return function.handler;
  }
  b.refuse("function " + std::string(name) + " has no body");
}

}  // namespace sglab::emu
