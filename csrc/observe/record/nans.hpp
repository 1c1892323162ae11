#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "machine/async/footprint.hpp"
#include "machine/engine/observer.hpp"
#include "machine/program/program.hpp"
#include "machine/tensor/element.hpp"
#include "observe/record/accesses.hpp"
#include "observe/record/float_types.hpp"
#include "observe/record/look_ahead.hpp"

namespace sglab::emu {

// Where NaN was met: every instruction and asynchronous operation that read or wrote one, in the order of
// their effects, with the registers and bytes that held it. Values are looked at as they are, nothing is
// followed: who got it from whom is for the reader to find, by registers and addresses.
struct NanLog {
  enum Kind : std::uint8_t { kInstruction, kOperation, kFilled };  // kFilled: registers, by a wait
  struct Event {
    std::uint64_t position;  // instructions of the launch before it; of an operation, before its issue
    std::uint32_t pc, cta, warp;
    std::uint32_t in, out;  // lanes that read one, lanes that got one; of an operation: elements
    std::uint8_t kind;
  };
  struct Operand {
    std::uint32_t event, reg, lanes;  // reg: virtual register
    bool written;
    std::uint32_t warp;  // of the CTA: a wgmma has registers of four
  };
  // Bytes that hold NaN. Tensor memory: address (rank * 512 + column) * 128 + lane, and lanes.
  struct Memory {
    std::uint32_t event;
    std::int32_t lane;  // -1: of no lane
    std::uint64_t address;
    std::uint32_t bytes;
    std::uint32_t cluster;
    std::uint8_t space;  // 0 global, 1 shared (rank << 24 | offset), 2 tensor memory
    bool written;
  };
  std::vector<Event> events;
  std::vector<Operand> operands;
  std::vector<Memory> memory;
  bool truncated = false;
};

class NanRecorder final : public Observer {
 public:
  // `kinds`: by virtual register. `copied`: what copies without a tensor map move that read none of
  // `tensors`. `infinite`: keeps infinities as well.
  NanRecorder(const Program& program, std::vector<FloatKind> kinds, std::vector<FloatTypes::Tensor> tensors,
              ElementType copied, bool infinite, std::size_t most);

  const NanLog& log() const { return log_; }

  void launched(const Launch&) override;
  void cluster_finished(const Cluster&) override { flush(); }
  bool follows_instructions() const override { return true; }
  void attempting(const Warp&, const Inst*) override;
  void attempted(const Warp&, const Inst*, const Inst* next) override;
  void issued(const Cluster&, const AsyncOperation&) override;
  void performed(const Cluster&, const AsyncOperation&) override;

 private:
  struct Watched {
    Ref place;
    FloatKind kind;
    std::uint8_t stride;  // bytes of a lane
    std::uint8_t bytes;   // of them, what the instruction moves: ld.b8 into a register of 16 bits
    bool written;
    std::uint32_t reg;
    std::uint32_t number;  // among the instruction's results, or sources
  };
  struct Pending {  // an operation whose writes have not been looked at
    const Cluster* cluster = nullptr;
    std::uint32_t event = 0;
    Footprint footprint;
    ElementType type = ElementType::kF16, sums = ElementType::kF32;  // sums: what it leaves in tensor memory
  };
  struct Unfilled;
  std::uint32_t lanes_of(const Warp&, const Watched&, FloatKind) const;
  ElementType element_of(const Footprint&) const;
  // Of a register that is moved alone: what the instruction put there.
  FloatKind moved_to(const Watched&, const Effects&, const std::vector<Watched>&, const Cluster*) const;
  void note_stored(const Warp&, const Effects&, const std::vector<Watched>&);
  std::uint32_t scan(const Cluster&, std::uint32_t event, const std::vector<Range>&, ElementType,
                     bool written);
  std::uint32_t scan(const Cluster&, std::uint32_t event, const std::vector<TmemRange>&, ElementType,
                     bool written);
  std::uint32_t add(const NanLog::Event& event);
  void keep_access(const Warp&, const Inst*, std::uint32_t event);
  void fill(const Warp&, const Unfilled&);
  void keep_columns(const Warp&, std::uint32_t event, const EventLog::Tmem&, bool written);
  void flush();
  // Of a wgmma: what registers held at its issue, and the accumulators once it was carried out.
  void pass_over_sums(const Warp&, const std::vector<Watched>&);
  void keep_sources(const Warp&, const std::vector<Watched>&);
  void keep_product(const Cluster&, const AsyncOperation&, const Wgmma&);
  bool full() const { return log_.events.size() >= most_; }

  const Program& program_;
  FloatTypes types_;
  std::map<std::pair<const Warp*, std::uint32_t>, FloatKind> moved_;  // by register
  ElementType copied_;
  bool infinite_;
  std::size_t most_;
  std::vector<std::vector<Watched>> watched_;  // by instruction
  std::vector<AccessForm> forms_;
  std::vector<Detail> details_;
  std::vector<std::uint32_t> sources_;  // NaN lanes of the sources of the instruction being attempted
  std::vector<FloatKind> now_;          // what each of its operands holds
  std::uint32_t lanes_ = 0;
  bool apart_ = false;      // lanes at other .sync instructions take part
  LaneAccess accesses_[2];  // global, shared
  AccessForm form_;
  Seen seen_;
  std::uint64_t position_ = 0;
  std::vector<Pending> pending_;
  struct Unfilled {  // an instruction whose registers are yet to fill
    std::uint32_t pc;
    std::optional<EventLog::Tmem> from;
  };
  std::unordered_map<const Warp*, std::vector<Unfilled>> unfilled_;
  // Operations are named by their cluster and number.
  using OperationName = std::pair<std::uint64_t, std::uint64_t>;
  struct Issue {
    std::uint64_t position = 0;  // of its first warp
    std::vector<NanLog::Operand> sources;
    bool chained = false;  // its accumulators are those of a wgmma that was not waited for
  };
  std::map<OperationName, Issue> issues_;
  OperationName last_issued_{};
  bool chained_ = false;  // of the wgmma being attempted
  // What the last wgmma left in its accumulators, by CTA, first warp and first register.
  std::map<std::array<std::uint32_t, 3>, std::vector<NanLog::Operand>> left_;
  NanLog log_;
};

}  // namespace sglab::emu
