#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/types.hpp"
#include "machine/async/footprint.hpp"
#include "machine/engine/observer.hpp"
#include "machine/scheduler/stepper.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {

// A byte of global or of a CTA's shared memory, or a cell of its tensor memory (Space::kReg).
struct MemoryPlace {
  Space space = Space::kGlobal;
  std::int64_t cta = 0;       // linear index; of no meaning for global memory
  std::uint64_t address = 0;  // shared: offset in the CTA's window; tensor: lane << 16 | column
};

// A moment between events: of those with the same ticks, after the first `count`.
struct EventOrder {
  std::uint64_t ticks = 0, count = 0;
  auto operator<=>(const EventOrder&) const = default;
};

// What wrote a place: an instruction, or an asynchronous operation as it was carried out.
struct FoundWriter {
  struct Source {
    MemoryPlace place;
    std::vector<std::uint8_t> bytes;  // that the place and those after it held; none: it is not known
  };
  bool operation = false;
  std::uint32_t pc = 0, warp = 0, lanes = 0;
  std::int64_t cta = 0;
  std::uint64_t position = 0;  // instructions before it; of an operation, before its issue
  EventOrder order;
  std::int32_t element = -1;    // of tcgen05.st: which of the registers that it stores
  std::vector<Source> sources;  // of an operation: what it made the place of
  std::vector<float> result;    // of a wgmma: what is in the accumulator now
};

// Follows a stretch of a launch and keeps who wrote a place last.
class WriterSearch final : public Observer {
 public:
  // Events before `limit` count.
  WriterSearch(const Stepper& stepper, MemoryPlace place, EventOrder limit);
  bool follows_instructions() const override { return true; }
  void attempting(const Warp& warp, const Inst* inst) override;
  void attempted(const Warp& warp, const Inst* inst, const Inst* next) override;
  void performed(const Cluster& cluster, const AsyncOperation& operation) override;

  const std::optional<FoundWriter>& found() const { return found_; }

 private:
  EventOrder next_order();
  void keep(const Warp& warp, const Inst* inst, std::uint32_t lanes, std::int32_t element);

  const Stepper& stepper_;
  const MemoryPlace place_;
  const EventOrder limit_;
  std::vector<AccessForm> stores_;  // by instruction
  EventOrder last_;
  std::optional<FoundWriter> attempt_, found_;
};

// Which number of a warp's accumulators: of which register, and which lane's.
struct AccumulatorPlace {
  std::int64_t cta = 0;
  std::uint32_t warp = 0, lane = 0, reg = 0;
};

// Follows a wgmma that one warp issues at a position until it is carried out.
class WgmmaSearch final : public Observer {
 public:
  WgmmaSearch(const Stepper& stepper, AccumulatorPlace place, std::uint64_t position)
      : stepper_(stepper), place_(place), position_(position) {}
  void issued(const Cluster& cluster, const AsyncOperation& operation) override;
  void performed(const Cluster& cluster, const AsyncOperation& operation) override;

  const std::optional<FoundWriter>& found() const { return found_; }

 private:
  const Stepper& stepper_;
  const AccumulatorPlace place_;
  const std::uint64_t position_;
  const Cluster* cluster_ = nullptr;
  std::uint64_t number_ = 0;
  EventOrder last_;
  std::optional<FoundWriter> found_;
};

}  // namespace sglab::emu
