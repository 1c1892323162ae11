#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <string>

#include "emulator/program/inst.hpp"

namespace sglab::emu {

struct Warp;

// Why a launch ended early. `kind` is a word a program can test: "out_of_bounds", "misaligned", "trap",
// "deadlock", "livelock", "interrupted", "barrier", "launch".
struct Fault {
  std::string kind;
  std::string message;
  std::string kernel;
  std::array<std::uint32_t, 3> cta{0, 0, 0};
  std::int64_t warp = -1;
  std::int64_t lane = -1;
  std::int64_t pc = -1;
  std::uint32_t ptx_line = 0;
  std::string source_file;
  std::uint32_t source_line = 0;
  std::string instruction;
};

class LaunchFault : public std::exception {
 public:
  explicit LaunchFault(Fault fault) : fault(std::move(fault)) {}
  const char* what() const noexcept override { return fault.message.c_str(); }
  Fault fault;
};

// Raises LaunchFault for an instruction of a warp. lane < 0: the whole warp.
[[noreturn]] void raise_fault(const Warp& warp, const Inst* inst, int lane, const char* kind,
                              const std::string& message);

// Fills in where an instruction comes from.
void locate(Fault& fault, const Warp& warp, std::uint32_t pc);

// "0x7f12…" for messages.
std::string hex(std::uint64_t value);

}  // namespace sglab::emu
