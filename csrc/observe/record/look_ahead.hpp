#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "observe/record/accesses.hpp"
#include "observe/record/events.hpp"

namespace sglab::emu {

// What an event log keeps of an instruction besides that it was executed.
enum class Detail : std::uint8_t {
  kNone,
  kAccess,
  kNamedBarrier,
  kMbarrier,
  kClusterBarrier,
  kTmemAlloc,
  kTmemDealloc,
  kTmemLoad,
  kTmemStore,
  kTmemWait,
};

// By instruction.
std::vector<Detail> details_of(const Program& program);

// What was seen of an instruction before its execution: addresses and phases are those that it finds.
struct Seen {
  std::vector<EventLog::Access> accesses;
  std::vector<EventLog::Barrier> barriers;  // lanes may arrive at several mbarriers
  std::optional<EventLog::Tmem> tmem;
  bool passes = false;      // lanes continue after a phase of the barrier
  std::uint32_t lanes = 0;  // that do
};

void look_ahead(const Warp& warp, const Inst* inst, const AccessForm& form, Detail detail,
                std::uint64_t event, Seen& seen);

// After a tcgen05.alloc: the address that it was given.
std::uint32_t allocated_address(const Warp& warp, const Inst* inst);

}  // namespace sglab::emu
