#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "isa/inst.hpp"

// A warp: 32 lanes, their registers, and the groups they have diverged into.
//
// Each live lane belongs to exactly one group; a group has one program counter. Mostly there is one group.
// When a branch diverges, the group furthest behind in program order runs (Program::order), so lanes meet at
// the first common instruction; a group that has waited for long gets its turn all the same, so that lanes
// may wait for each other.
namespace sglab::emu {

struct Cta;
struct Cluster;
struct Launch;
struct Program;

enum class Wait : std::uint8_t {
  kReady,
  kWarp,     // other lanes of the warp, for a .sync instruction
  kBarrier,  // a named barrier; key: its number
  kClusterBarrier,
  kMbarrier,  // key: shared address of the mbarrier
  kAsync,     // asynchronous operations of its own; key: which
  kResource,  // tensor-memory columns, registers
};

struct Group {
  std::uint32_t pc = 0;
  std::uint32_t mask = 0;
  std::uint32_t frame = 0xffffffffu;  // in Warp::frames; the kernel itself has none
  std::uint32_t last_turn = 0;
  Wait wait = Wait::kReady;
  bool arrived = false;   // the blocked instruction has had its effect and only waits
  bool released = false;  // the wait is over although its condition does not hold (time-out)
  std::uint64_t key = 0;
  std::uint64_t ticket = 0;  // the barrier's phase when the group arrived
};

// A call in progress, for the lanes that made it.
struct Frame {
  std::uint32_t caller = 0xffffffffu;  // frame
  std::uint32_t call = 0;              // the call instruction
  std::uint32_t callee = 0;            // Program::functions
  std::uint32_t depth = 0;
  std::uint32_t mask = 0;        // lanes that have not returned; 0: free
  std::uint32_t saved_mask = 0;  // lanes that called
  std::uint64_t stack = 0;       // bytes that this call and those below it keep of a lane
  // What a recursive caller keeps; checkpoints share it. nullptr: nothing.
  std::shared_ptr<const std::vector<std::uint8_t>> saved;
};

// Lanes that have come to .sync instructions with the same member mask, at several places. They execute the
// instruction one place after the other, and nothing else of the warp runs in between.
struct Meeting {
  std::uint32_t pc = 0;    // one of the places
  std::uint32_t all = 0;   // lanes that exchange
  std::uint32_t left = 0;  // that have not executed it yet
  bool taken = false;      // `given` is known: the first of them have executed it
  std::array<std::uint64_t, 32> given{};
};

struct Warp {
  std::uint8_t* bank[2] = {nullptr, nullptr};  // registers, constants; by Ref's top bit
  std::uint32_t* predicates = nullptr;
  std::uint32_t mask = 0;        // lanes of the instruction being executed
  std::uint32_t group_mask = 0;  // lanes of the current group
  std::uint32_t live = 0;        // lanes that have not exited
  std::uint32_t partial = 0;     // 1: the current group is not all live lanes
  const Inst* code = nullptr;
  const Program* program = nullptr;
  Cta* cta = nullptr;
  Cluster* cluster = nullptr;
  Launch* launch = nullptr;
  std::uint8_t* local = nullptr;             // 32 lanes' local memory, one after the other
  const std::uint8_t* parameters = nullptr;  // of the kernel
  // The CTA's own shared memory: addresses [begin, end) are at host address + base.
  std::uint64_t shared_begin = 0, shared_end = 0, shared_base = 0;
  // The allocation that served the last global access.
  std::uint64_t allocation_begin = 0, allocation_end = 0;
  std::uint32_t index = 0;  // in the CTA
  std::uint32_t slot = 0;   // in the cluster
  std::uint32_t group = 0;  // current
  std::uint32_t group_count = 0;
  std::uint32_t turns = 0;           // choices among groups so far
  std::uint32_t hold = 0;            // choices for which a starved group keeps its turn
  std::uint64_t cluster_ticket = 0;  // the cluster barrier's phase at the last arrival
  std::uint32_t carry = 0;           // CC.CF by lane
  bool retry = false;                // the last instruction blocked: it has not been executed
  bool yield = false;                // give other warps a turn (nanosleep)
  bool hurry = false;                // run groups that would rather wait for one further behind
  std::uint64_t executed = 0;        // warp-instructions
  std::uint64_t* visited = nullptr;  // see Tally
  std::array<Group, 32> groups;
  std::vector<Frame> frames;
  std::vector<Meeting> meetings;  // while they last

  Group& current() { return groups[group]; }
  // The meeting that some of the lanes still have a part in; nullptr: none.
  const Meeting* meeting_of(std::uint32_t lanes) const {
    for (const Meeting& m : meetings) {
      if ((m.left & lanes) != 0) return &m;
    }
    return nullptr;
  }
};

// Handlers end a group's run with one of these; all return what the handler must return.

// The group cannot continue: it executes `inst` again when the wait is over.
const Inst* block(Warp& warp, const Inst* inst, Wait wait, std::uint64_t key);

// The lanes in `taken` go to `target`, the current group's others to the instruction after `inst`.
const Inst* diverge(Warp& warp, const Inst* inst, std::uint32_t taken, std::uint32_t target);

// The current group goes to `pc`, where other lanes may be waiting for it. Only needed when group_count > 1.
const Inst* meet(Warp& warp, std::uint32_t pc);

// The lanes exit.
const Inst* leave(Warp& warp, const Inst* inst, std::uint32_t lanes);

// For .sync.aligned instructions: collects lanes of `members` that wait at `inst` into the current group.
// False: not all are there; the caller returns block_for_lanes(...).
bool gather(Warp& warp, const Inst* inst, std::uint32_t members);
// Collects all lanes that wait at `inst` for others of their warp.
void gather_waiting(Warp& warp, const Inst* inst);
const Inst* block_for_lanes(Warp& warp, const Inst* inst, std::uint32_t members);

// Picks the group to run next; nullptr if none can. For the scheduler.
const Inst* choose(Warp& warp);

// Whether any group of the warp could run (`hurry` aside).
bool runnable(const Warp& warp);

// Makes blocked groups whose wait is over ready. For the scheduler and for barriers.
void wake(Warp& warp, Wait wait, std::uint64_t key);

}  // namespace sglab::emu
