#include "observe/debug/back_search.hpp"

#include <utility>

namespace sglab::emu {

BackSearch::BackSearch(Session& session, Sought sought)
    : session_(session),
      sought_(std::move(sought)),
      checkpoints_(session.checkpoints_),
      end_(session.stepper_.ticks()) {
  if (!session.fault_) return;
  --end_;  // the tick that fails is not repeated
  inclusive_ = true;
}

Stop BackSearch::look(std::uint64_t most) {
  while (checkpoints_.size() > 1 && checkpoints_.back()->ticks >= end_) checkpoints_.pop_back();
  const Progress progress = repeat(most);
  if (progress == Progress::kInterrupted) return {StopReason::kInterrupted, 0};
  if (progress == Progress::kPaused) return {StopReason::kLimit, 0};
  if (found_ticks_ != 0) {
    session_.return_to(found_ticks_);
    return found_;
  }
  if (checkpoints_.size() == 1) {
    session_.go_back(checkpoints_.back());
    return {StopReason::kStart, 0};
  }
  end_ = checkpoints_.back()->ticks;
  inclusive_ = true;
  checkpoints_.pop_back();
  return {StopReason::kLimit, 0};
}

bool BackSearch::counts(std::uint32_t breakpoint) const {
  return breakpoint != 0 && (sought_.breakpoint == 0 || sought_.breakpoint == breakpoint);
}

void BackSearch::note_next_tick() {
  Session& s = session_;
  const Stepper& stepper = s.stepper_;
  if (sought_.arrival) {
    if (s.advance_to(*sought_.arrival) && (inclusive_ || stepper.ticks() < end_))
      found_ = {StopReason::kReached, 0}, found_ticks_ = stepper.ticks();
    return;
  }
  if (const std::uint32_t id = s.met(sought_.breakpoint))
    found_ = {StopReason::kBreakpoint, id}, found_ticks_ = stepper.ticks();
  s.advance();
  const std::uint32_t id = s.breakpoints_.after(stepper);
  if (counts(id) && (inclusive_ || stepper.ticks() < end_))
    found_ = {StopReason::kBreakpoint, id}, found_ticks_ = stepper.ticks();
}

BackSearch::Progress BackSearch::repeat(std::uint64_t most) {
  Session& s = session_;
  const Stepper& stepper = s.stepper_;
  if (left_ != stepper.ticks()) {
    s.go_back(checkpoints_.back());
    s.breakpoints_.arm(stepper);
    found_ticks_ = 0;
  }
  left_.reset();
  Progress progress = Progress::kDone;
  const std::uint64_t begin = stepper.now();
  s.guarded([&] {
    while (stepper.ticks() < end_) {
      if (stepper.now() - begin >= most) return void(progress = Progress::kPaused);
      note_next_tick();
      if (s.interrupted()) return void(progress = Progress::kInterrupted);
    }
  });
  if (progress == Progress::kPaused) left_ = stepper.ticks();
  return progress;
}

}  // namespace sglab::emu
