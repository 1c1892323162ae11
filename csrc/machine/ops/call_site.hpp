#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "machine/engine/warp.hpp"
#include "machine/program/builder.hpp"

// What an instruction `call` names: its arguments and results, and where the lanes have them.
namespace sglab::emu {

inline std::uint8_t* local_of(const Warp& w, int lane) {
  return w.local + static_cast<std::uint64_t>(lane) * w.program->local_bytes;
}

template <class F>
void for_lanes(std::uint32_t lanes, F f) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) f(std::countr_zero(m));
}

// The .param variable that an argument or a result is: in local memory, or one of the kernel's parameters.
struct CallSlot {
  std::uint32_t offset, bytes;
  bool of_kernel;
};
struct CallSite {
  std::vector<CallSlot> arguments, results;
  bool passes_on = false;  // an argument is a parameter of the calling function
};

inline const std::uint8_t* argument_of(const Warp& w, int lane, const CallSlot& slot) {
  return (slot.of_kernel ? w.parameters : local_of(w, lane)) + slot.offset;
}

template <class T>
T argument(const Warp& w, int lane, const CallSlot& slot) {
  T value;
  std::memcpy(&value, argument_of(w, lane, slot), sizeof value);
  return value;
}

// Why a call does not fit a function; empty if it does.
template <class Slots>
std::string misfit(const char* what, const std::vector<CallSlot>& given, const Slots& wanted) {
  if (given.size() != wanted.size()) {
    return std::to_string(given.size()) + " " + what + "s, not " + std::to_string(wanted.size());
  }
  for (std::size_t k = 0; k < given.size(); ++k) {
    if (given[k].bytes == wanted[k].bytes) continue;
    return std::string(what) + " " + std::to_string(k + 1) + " has " + std::to_string(given[k].bytes) +
           " bytes, not " + std::to_string(wanted[k].bytes);
  }
  return {};
}

// The handler of a function that has no body because the driver would supply it; refuses any other.
// supplied.cpp.
Handler supplied_function(Builder& b, std::string_view name, const CallSite& site);

}  // namespace sglab::emu
