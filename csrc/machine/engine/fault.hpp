#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "isa/inst.hpp"

namespace sglab::emu {

struct Tally;
struct Warp;

// One party of a deadlock: who waits, for what, and who was to end that.
struct WaitLink {
  std::array<std::uint32_t, 3> cta{0, 0, 0};
  std::uint32_t warp = 0;
  std::uint32_t lanes = 0;
  std::uint32_t pc = 0, ptx_line = 0;
  std::string source_file;
  std::uint32_t source_line = 0;
  std::string kind;          // "mbarrier", "barrier", "cluster_barrier", "lanes", "wgmma", "tensor_memory"
  std::uint64_t object = 0;  // shared address of the mbarrier, number of the barrier, mask of the lanes
  std::int64_t phase = 0;    // that is waited for; of an mbarrier, its parity
  std::string waits;         // in words
  std::int64_t next = -1;    // in the chain; -1: none
  std::uint32_t next_pc = 0, next_line = 0;  // the instruction by which that party would end the wait
};

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
  std::vector<WaitLink> cycle;         // of a deadlock
  std::shared_ptr<const Tally> tally;  // what warps have done and who uses which barrier, if that is known
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

// A C++ name as its source has it; any other as it is.
std::string demangled(const std::string& name);
// A kernel's name for people: C++ names without mangling, long ones cut.
std::string shown_name(const std::string& name);

// "0x7f12…" for messages.
std::string hex(std::uint64_t value);

}  // namespace sglab::emu
