#pragma once

#include <cstdint>
#include <vector>

#include "machine/program/program.hpp"
#include "observe/sanitize/detector.hpp"

namespace sglab::emu {

// What an instruction is to a sanitizer, read off its mnemonic once per kernel.
struct Meaning {
  enum class Kind : std::uint8_t {
    kPlain,       // nothing but registers
    kAccess,      // ld, st, atom, red
    kMatrixRows,  // ldmatrix, stmatrix: 16 bytes of shared memory for each of the first `rows` lanes
    kFence,
    kNamedBarrier,
    kClusterArrive,
    kClusterWait,
    kMbarrierWait,
    kCommitGroup,
    kWaitGroup,
    kAlloc,
    kDealloc,
    kRelinquish,
    kTmemLoad,
    kTmemStore,
    kReplaceMap,  // tensormap.replace
    kCopyMap,     // tensormap.cp_fenceproxy
    kUseMap,      // a copy that a tensor map describes
    kWarpSync,
    kExit,
  };
  Kind kind = Kind::kPlain;
  Space space = Space::kReg;  // kGeneric: the address tells
  std::uint8_t bytes = 0;     // per lane
  std::uint8_t rows = 0;
  bool reads = false, writes = false, atomic = false;  // reads, of a fence: it names an address
  bool waits = false;  // a barrier that is waited for; .read of a wait; warp sync: orders memory
  Order order = Order::kWeak;
  Scope scope = Scope::kGpu;
  Fence::Kind fence = Fence::Kind::kThread;
  GroupKind group = GroupKind::kBulk;
  bool counts = false;  // stands in the PTX text, so executing it moves the launch's position
};

// By instruction.
std::vector<Meaning> meanings(const Program& program);

// Order and scope that a mnemonic names, or what it means without naming any.
Order order_of(std::string_view opcode, Order otherwise);
Scope scope_of(std::string_view opcode, Scope otherwise);

}  // namespace sglab::emu
