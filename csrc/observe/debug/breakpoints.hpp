#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machine/engine/observer.hpp"
#include "machine/scheduler/stepper.hpp"
#include "observe/debug/conditions.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {

// Warps a breakpoint is about; -1: all.
struct WarpFilter {
  std::int64_t cta = -1;   // linear index in the grid
  std::int64_t warp = -1;  // in the CTA
  bool passes(const Warp& warp) const;
};

struct Watch {
  Space space = Space::kGlobal;
  std::uint64_t begin = 0, end = 0;  // shared: offsets in the window of `cta`; kTensorWatch: columns
  bool reads = false, writes = true;
};

// Stops a run: before an instruction (perhaps only if it is about a certain barrier), before an
// access to watched bytes or right after a change of theirs by an asynchronous operation, or right after
// the end of a barrier's phase.
struct Breakpoint {
  enum class Kind : std::uint8_t {
    kCode,
    kWatch,
    kNamedBarrier,
    kMbarrier,
    kClusterBarrier,
    kBarrierUse,
    kMbarrierUse,
    kTensorWatch
  };
  std::uint32_t id = 0;
  Kind kind = Kind::kCode;
  WarpFilter filter;
  std::vector<bool> code;             // kCode, k…Use, by instruction
  std::vector<Condition> conditions;  // kCode: a lane for which all hold
  Watch watch;                        // kWatch
  std::uint32_t barrier = 0;  // number, or shared offset of the mbarrier, in the CTA that the filter names
};

// Observes the ends of phases; where the next attempt leads, a session asks before it is made.
class Breakpoints final : public Observer {
 public:
  explicit Breakpoints(const Program& program)
      : forms_(access_forms(program)), interesting_(program.code.size()) {}

  std::uint32_t add(Breakpoint breakpoint);
  bool remove(std::uint32_t id);
  const std::vector<Breakpoint>& all() const { return all_; }
  const std::vector<AccessForm>& forms() const { return forms_; }

  // Before a run: remembers bytes as they are.
  void arm(const Stepper& stepper);
  // Whether the next attempt meets a breakpoint; its id, or 0. `warp` attempts `inst`, with the lanes that
  // `seen`, the same warp or a copy of it, has chosen. `only`: no other breakpoint counts; 0: all do.
  std::uint32_t before(const Stepper& stepper, const Warp& warp, const Warp& seen, const Inst* inst,
                       std::uint32_t only = 0);
  // The same for what the last tick has done: phases that have ended, watched bytes that have changed.
  std::uint32_t after(const Stepper& stepper);

  void mbarrier_changed(const Cluster& cluster, const MbarrierChange& change) override;
  void barrier_completed(const Cta& cta, BarrierKind kind, std::uint32_t number,
                         std::uint64_t phase) override;

 private:
  struct Remembered {
    bool known = false;
    std::vector<std::uint8_t> bytes;
  };
  bool meets(const Breakpoint& breakpoint, const Warp& warp, const Inst* inst) const;
  Remembered look(const Breakpoint& breakpoint, const Stepper& stepper) const;
  void phase_ended(Breakpoint::Kind kind, const Cta& cta, std::uint32_t barrier);
  void refresh();

  std::vector<AccessForm> forms_;
  std::vector<bool> interesting_;  // by instruction
  std::vector<Breakpoint> all_;
  std::vector<Remembered> remembered_;
  std::uint32_t next_id_ = 1;
  bool follows_bytes_ = false;
  std::uint32_t ended_ = 0;  // the first breakpoint whose phase has ended since after()
};

// The CTA of this linear index, if it is running.
const Cta* find_cta(const Stepper& stepper, std::int64_t linear);

}  // namespace sglab::emu
