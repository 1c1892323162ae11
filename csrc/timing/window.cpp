#include <algorithm>
#include <bit>

#include "timing/clock.hpp"

// What a warp executes next: stretches of straight-line code, in the order in which ptxas lets them issue.
namespace sglab::emu::timing {
namespace {

constexpr std::size_t kWindow = 512;    // instructions that are ordered together
constexpr std::size_t kUnrolled = 4;    // iterations of a small loop that ptxas makes one body of
constexpr std::uint32_t kCodeLine = 8;  // instructions that are fetched together

}  // namespace

std::uint64_t Clock::event_at(const Cursor& at) const {
  const std::uint32_t run = order_[at.run];
  return run_begin_[run] + std::uint64_t{at.iteration} * t_.runs.length[run] + at.offset;
}

std::uint32_t Clock::pc_at(const Cursor& at) const {
  return t_.runs.shown[t_.runs.first[order_[at.run]] + at.offset];
}

void Clock::advance(Cursor& at) const {
  const std::uint32_t run = order_[at.run];
  if (++at.offset < t_.runs.length[run]) return;
  at.offset = 0;
  if (++at.iteration < t_.runs.times[run]) return;
  at.iteration = 0;
  ++at.run;
}

// Where execution was seen to arrive from elsewhere, a basic block begins.
void Clock::find_leaders() {
  leader_.assign(t_.costs.size(), false);
  for (std::size_t warp = 0; warp + 1 < warp_begin_.size(); ++warp) {
    std::uint32_t before = ~0u - 1;
    for (std::uint32_t at = warp_begin_[warp]; at < warp_begin_[warp + 1]; ++at) {
      const std::uint32_t run = order_[at], first = t_.runs.first[run], length = t_.runs.length[run];
      for (std::uint32_t i = 0; i < length; ++i) {
        const std::uint32_t pc = t_.runs.shown[first + i];
        if (pc != before + 1) leader_[pc] = true;
        before = pc;
      }
      if (t_.runs.times[run] > 1 && t_.runs.shown[first] != before + 1) leader_[t_.runs.shown[first]] = true;
    }
  }
}

// The launch before has left what an SM's instruction cache holds.
void Clock::lay_out_code() {
  double instructions = 0;
  for (const Cost& cost : t_.costs) {
    code_line_.push_back(static_cast<std::uint32_t>(instructions / kCodeLine));
    instructions += cost.slots;
  }
  const auto lines = static_cast<std::uint32_t>(m_.code_capacity / kCodeLine);
  for (Sm& sm : sms_) {
    sm.code.resize(lines);
    for (std::uint32_t line = 0; line * kCodeLine < instructions; ++line) sm.code[line % lines].number = line;
  }
}

// When the line of the warp's next instruction is in the instruction cache. Straight code is fetched ahead.
double Clock::fetch(Warp& w) {
  const std::uint32_t line = code_line_[w.pcs[w.place]];
  if (line == w.code) return 0;
  w.code = line;
  Sm& sm = sms_[w.sm];
  CodeLine& place = sm.code[line % sm.code.size()];
  if (place.number != line) place = {line, sm.fetch.serve(w.next - kCodeLine, kCodeLine * m_.code_rate)};
  return place.filled;
}

// One basic block from the warp's cursor on, or its rest; an instruction that nothing may cross is a block of
// its own.
void Clock::gather_block(Warp& w) {
  const std::size_t begin = w.pcs.size();
  do {
    const std::uint32_t pc = pc_at(w.cursor);
    const std::uint8_t order = t_.costs[pc].order;
    if (w.pcs.size() > begin && (pc != w.pcs.back() + 1 || leader_[pc] || order & kFixed)) return;
    w.pcs.push_back(pc);
    w.events.push_back(event_at(w.cursor));
    advance(w.cursor);
    if (order & (kBranch | kFixed)) return;
  } while (w.cursor.run != w.last && w.pcs.size() - begin < kWindow);
}

// Registers that the window's loads fill.
std::size_t Clock::loaded(const Warp& w) const {
  std::size_t count = 0;
  for (const std::uint32_t pc : w.pcs) {
    if (!(t_.costs[pc].order & (kReadsShared | kReadsGlobal))) continue;
    for (std::uint32_t i = mention_begin_[pc]; i < mention_begin_[pc + 1]; ++i)
      count += t_.mentions[i].definition;
  }
  return count;
}

// The further iterations of a loop whose body is the window: as many as ptxas has a body for, and registers
// for what they load.
void Clock::gather_iterations(Warp& w) {
  const std::size_t body = w.pcs.size(), registers = loaded(w);
  Cursor end = w.cursor;
  std::size_t kept = 1;
  for (std::size_t iterations = 2; iterations <= kUnrolled; ++iterations) {
    if (w.cursor.run == w.last || pc_at(w.cursor) != w.pcs.front()) break;
    if (iterations * registers >= t_.registers) break;
    gather_block(w);
    if (w.pcs.size() != iterations * body) break;
    if (!std::has_single_bit(iterations)) continue;
    end = w.cursor;
    kept = iterations;
  }
  w.cursor = end;
  w.pcs.resize(kept * body);
  w.events.resize(kept * body);
}

// False if the warp has no more instructions.
bool Clock::start_window(Warp& w) {
  w.pcs.clear();
  w.events.clear();
  if (w.cursor.run == w.last) return false;
  gather_block(w);
  const bool repeats = t_.costs[w.pcs.back()].order & kBranch && w.cursor.run != w.last &&
                       pc_at(w.cursor) == w.pcs.front() && w.pcs.size() * kUnrolled <= kWindow;
  if (repeats && scheduler_.counted(w.pcs)) gather_iterations(w);
  w.schedule = &scheduler_.of(w.pcs);
  w.place = 0;
  w.done.assign(w.pcs.size(), 0.0);
  w.filled_by.assign(w.pcs.size(), Stall::kNone);
  choose(w);
  return true;
}

void Clock::choose(Warp& w) {
  w.position = w.schedule->order[w.place];
  w.event = w.events[w.position];
  w.pc = w.pcs[w.position];
}

// Passes the window's registers on. In the tables, what issued ahead of its place in the program counts from
// there.
void Clock::close_window(Warp& w) {
  for (const Schedule::Result& result : w.schedule->results) {
    ready_[w.registers + result.slot] = w.done[result.position];
    producer_[w.registers + result.slot] = w.filled_by[result.position];
  }
  for (const std::uint64_t event : w.events) {
    w.shown = out_.issue[event] = std::max(out_.issue[event], w.shown);
    out_.end[event] = std::max(out_.end[event], w.shown);
  }
}

// To the warp's next instruction; false if there is none.
bool Clock::step(Warp& w) {
  if (++w.place < w.pcs.size()) {
    choose(w);
  } else {
    close_window(w);
    const std::uint32_t last = w.pcs.back();
    if (!start_window(w)) return false;
    if (t_.costs[last].order & kBranch && w.pcs.front() != last + 1) w.next += m_.branch;
  }
  find_key(w);
  return true;
}

}  // namespace sglab::emu::timing
