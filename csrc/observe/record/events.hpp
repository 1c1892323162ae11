#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "machine/async/tensor_map.hpp"
#include "machine/engine/observer.hpp"
#include "machine/scheduler/stepper.hpp"

namespace sglab::emu {

// What happened in a launch, in the order in which it happened. Event n is the n-th executed instruction of
// the PTX text. Positions count events: what happens at position n does so before event n or as part of
// it.
//
// Asynchronous operations are carried out as late as the programming model allows; `done` is when. Shared
// addresses are shared::cluster addresses. -1 marks what a row does not have.
struct EventLog {
  // Instructions [begin, end), executed in a row by the same lanes, as a whole `times` times over.
  struct Run {
    std::uint32_t cta, warp, begin, end, mask, times;
  };
  struct Access {
    std::uint64_t event;
    std::uint64_t address;  // the lowest
    std::uint32_t span;     // from there to past the highest byte
    std::uint32_t bytes;    // of all lanes
    std::uint8_t lanes;
    std::uint8_t space;  // 0 global, 1 shared
    std::uint8_t kind;   // 1 read, 2 write, 3 both
    // Of global memory: pieces of 32 and of 128 bytes that the lanes touch.
    std::uint8_t sectors, lines;
    std::uint8_t wavefronts;  // of shared memory: cycles that its banks need
  };
  struct Barrier {
    std::uint64_t event;
    std::uint64_t phase;   // before the event; of an mbarrier, its parity
    std::int64_t passed;   // row of phases whose end let the lanes continue; -2: a test that failed
    std::uint32_t object;  // number, or address
    std::uint8_t kind;     // BarrierKind
  };
  struct WaitEnd {
    std::uint64_t since;  // instructions executed when it began
    std::uint64_t event;  // that it delayed
    std::int64_t object;  // lanes, number or address, by kind
    std::int64_t phase;   // row of phases whose end released it
    std::uint8_t kind;    // Wait
  };
  // The end of a barrier's phase.
  struct Phase {
    std::uint64_t position;
    std::uint64_t event;   // the arrival, or the issue of the asynchronous operation, that ended it
    std::uint64_t number;  // since the barrier's initialisation, from 0
    std::int64_t cta;      // whose barrier it is
    std::uint32_t object;  // number, or address
    std::uint8_t kind;     // BarrierKind
    bool asynchronous;     // an operation's signal ended it
  };
  // A barrier after a change.
  struct State {
    std::uint64_t position;
    std::int64_t cta;      // whose barrier it is
    std::uint32_t object;  // number, or address
    std::int32_t pending, expected, tx_count;
    std::uint8_t kind;   // BarrierKind
    std::uint8_t phase;  // parity
  };
  struct Copy {
    enum Kind : std::uint8_t {  // the first as in BulkOperation
      kPrefetchBox = 9,
      kPrefetch,
      kCpAsync
    };
    std::uint64_t event;
    std::int64_t done;
    std::int64_t global;      // the lowest address, of plain copies
    std::int64_t shared;      // the lowest address: the destination, or the source of a store
    std::int64_t source;      // in shared memory, of copies within it
    std::int64_t mbarrier;    // signalled
    std::int32_t map;         // in `maps`
    std::uint32_t bytes;      // per destination
    std::uint32_t multicast;  // CTAs that get the data, by rank; 0: the one addressed
    std::array<std::int32_t, 5> coordinates;
    std::uint8_t kind;
    std::uint8_t mode;  // BoxRequest::Mode
  };
  struct Mma {
    enum Kind : std::uint8_t { kWgmma = 7 };  // the first as in MmaKind
    enum Space : std::uint8_t { kShared, kTensor, kRegisters };
    std::uint64_t event;
    std::int64_t done;
    std::uint64_t a, b;  // descriptors; a: or an address, by a_space
    std::int64_t d;      // address in tensor memory
    std::uint32_t idesc;
    std::uint16_t m, n, k;
    std::uint8_t kind, a_space, a_type, b_type, d_type;  // types: ElementType
    std::uint8_t a_major, b_major, cta_group;
    bool accumulate;
  };
  struct Tmem {
    enum Kind : std::uint8_t { kAlloc, kDealloc, kLoad, kStore, kCopy, kShift };
    std::uint64_t event;
    std::int64_t done;
    std::uint32_t address;
    std::uint16_t columns, lanes;
    std::uint8_t kind, cta_group;
  };
  std::vector<Run> runs;
  std::vector<Access> accesses;
  std::vector<Barrier> barriers;
  std::vector<WaitEnd> waits;
  std::vector<Phase> phases;
  std::vector<State> states;
  std::vector<Copy> copies;
  std::vector<TensorMap> maps;
  std::vector<Mma> mmas;
  std::vector<Tmem> tmem;
};

// Runs to the end of a launch and keeps its events; `details`: everything but runs, too. Throws LaunchFault;
// the log is right up to there.
void record(Stepper& stepper, bool details, const std::function<bool()>& interrupted, EventLog& log);

// Runs a launch on one host thread, in the order of an unrecorded one, and keeps its events.
LaunchReport record_launch(const Program& program, LaunchConfig config, bool details,
                           const std::function<bool()>& interrupted, EventLog& log);

}  // namespace sglab::emu
