#include "machine/engine/fault.hpp"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "machine/engine/cluster.hpp"

namespace sglab::emu {

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string demangled(const std::string& name) {
  int status = 1;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : name;
}

std::string shown_name(const std::string& name) {
  constexpr std::size_t kMost = 120;
  std::string text = demangled(name);
  if (text.size() > kMost) text = text.substr(0, kMost) + "…";
  return text;
}

void locate(Fault& fault, const Warp& warp, std::uint32_t pc) {
  const Program& program = *warp.program;
  fault.kernel = program.name;
  fault.cta = warp.cta->index;
  fault.warp = warp.index;
  fault.pc = pc;
  if (pc >= program.places.size()) return;
  const Place& place = program.places[pc];
  fault.ptx_line = place.line;
  if (place.location == kNoIndex) return;
  const Module& module = program.image->module();
  const Location& location = module.locations[place.location];
  fault.source_line = location.line;
  const auto file = module.files.find(location.file);
  if (file != module.files.end()) fault.source_file = file->second;
}

void raise_fault(const Warp& warp, const Inst* inst, int lane, const char* kind, const std::string& message) {
  Fault fault;
  fault.kind = kind;
  fault.message = message;
  fault.lane = lane;
  locate(fault, warp, static_cast<std::uint32_t>(inst - warp.code));
  throw LaunchFault(std::move(fault));
}

}  // namespace sglab::emu
