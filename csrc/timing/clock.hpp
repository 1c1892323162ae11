#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "timing/contributions.hpp"
#include "timing/memory.hpp"
#include "timing/schedule.hpp"
#include "timing/trace.hpp"

namespace sglab::emu::timing {

// The first row of a table, sorted by events, at an event or after it.
inline std::size_t first_row(std::span<const std::uint64_t> events, std::uint64_t event) {
  return static_cast<std::size_t>(std::lower_bound(events.begin(), events.end(), event) - events.begin());
}

// Replays a trace on a model of a GPU. Warps issue their recorded instructions in ptxas's order; the queue
// holds, for every warp that knows, the earliest time of its next one. Every unit serves requests in the
// order in which they come.
class Clock {
 public:
  Clock(const Trace& trace, const Machine& machine);
  Times run();

 private:
  static constexpr std::uint32_t kParts = 4;  // sub-partitions of an SM

  struct Groups {
    std::vector<double> done, read;  // of the committed ones, oldest first
    double open = 0, open_read = 0;
  };
  struct Cursor {  // in a warp's runs
    std::uint32_t run = 0, offset = 0, iteration = 0;
  };
  struct Warp {
    std::uint32_t cta = 0, sm = 0, part = 0;
    Cursor cursor;           // after the window
    std::uint32_t last = 0;  // after its runs, in order_
    std::vector<std::uint32_t> pcs;
    std::vector<std::uint64_t> events;
    const Schedule* schedule = nullptr;
    std::vector<double> done;  // by position in the window: when its registers are ready
    std::vector<Stall> filled_by;
    std::size_t place = 0;  // in the schedule
    std::uint16_t position = 0;
    std::uint32_t pc = 0;
    std::uint64_t event = 0;
    double next = 0, key = 0, end = 0;            // of the next instruction; the last end so far
    double shown = 0;                             // the last start in the tables
    std::uint32_t code = ~0u;                     // the line of code that it executes
    double copies = 0, tensor = 0, tmem[2] = {};  // when all issued so far is done
    std::uint32_t registers = 0;                  // first of its places in ready_
    Stall why = Stall::kNone;
    Groups groups[static_cast<int>(Group::kCount)];
  };
  struct Phase {
    double time = 0;
    std::uint32_t missing = 0;
    std::vector<std::uint32_t> parked;
  };
  struct Part {
    Server issue;
    Server units[static_cast<int>(Unit::kTensor) + 1];
  };
  struct CodeLine {
    std::uint32_t number;
    double filled = 0;
  };
  struct Sm {
    Part parts[kParts];
    Server lsu, async, tensor, barrier, fetch;
    std::vector<CodeLine> code;  // its instruction cache
    std::uint32_t warps = 0;     // that started here, to spread them over the parts
  };
  struct Entry {
    double key;
    std::uint32_t warp;
    bool operator>(const Entry& other) const {
      return key != other.key ? key > other.key : warp > other.warp;
    }
  };
  struct Issued {
    double time, served;  // when the instruction issued, and when its unit had taken it in
  };

  void sort_runs();
  void place_first();
  void place(std::uint32_t cluster, std::uint32_t slot, double time);
  void finish(std::uint32_t warp);
  std::uint64_t event_at(const Cursor& at) const;
  std::uint32_t pc_at(const Cursor& at) const;
  void advance(Cursor& at) const;
  void find_leaders();
  void lay_out_code();
  double fetch(Warp& w);
  void gather_block(Warp& w);
  void gather_iterations(Warp& w);
  std::size_t loaded(const Warp& w) const;
  bool start_window(Warp& w);
  void choose(Warp& w);
  void close_window(Warp& w);
  void find_key(Warp& w);
  void play(std::uint32_t warp);
  bool step(Warp& w);
  void move_on(std::uint32_t warp);
  bool unstick();

  // Executes the next instruction of a warp; false if its end is not known yet.
  bool execute(std::uint32_t warp);
  Issued issue(Warp& w, const Cost& cost, double busy);
  void rename(Warp& w);
  double global(Warp& w, const Cost& cost, std::uint64_t event, double time);
  double shared_cycles(const Warp& w, std::uint64_t event, bool& remote) const;
  double lsu_cycles(std::uint64_t event) const;
  void copy(Warp& w, std::uint64_t event, double time);
  double wait(Warp& w, const Cost& cost);
  double tcgen05(Warp& w, const Cost& cost, std::uint64_t event, double time);
  void commit(std::uint64_t event, double time);
  std::int64_t barrier_row(std::uint64_t event) const;
  void arrival(Warp& w, std::int64_t row, double time);
  bool hold(std::uint32_t warp, std::int64_t phase);
  void end_event(Warp& w, const Cost& cost, double issued, double end, bool blocks, Stall why);
  void contribute(std::uint32_t phase, double time);
  void wake(std::uint32_t phase);
  double released(const Warp& w, std::uint32_t phase) const;
  void fill(Warp& w, double time, Stall producer);
  // A move, or the branch between two iterations that became one body: no instruction of the machine.
  bool removed(const Warp& w) const {
    const Cost& cost = t_.costs[w.pc];
    return cost.action == Action::kMove || (cost.order & kBranch && w.position + 1u < w.pcs.size());
  }
  // When each register that the warp's next instruction reads is ready, and who fills it.
  template <class Visit>
  void visit_sources(const Warp& w, Visit visit) const {
    const Schedule& s = *w.schedule;
    for (std::uint32_t i = s.begin[w.position]; i < s.begin[w.position + 1u]; ++i) {
      const std::int32_t source = s.sources[i];
      if (source >= 0) {
        visit(w.done[static_cast<std::size_t>(source)], w.filled_by[static_cast<std::size_t>(source)]);
      } else {
        const std::size_t place = w.registers + static_cast<std::uint32_t>(~source);
        visit(ready_[place], producer_[place]);
      }
    }
  }

  const Trace& t_;
  const Machine& m_;
  Contributions contributions_;
  Memory memory_;
  Times out_;
  std::vector<std::uint64_t> run_begin_;
  std::vector<std::uint32_t> order_, warp_begin_;  // runs by warp
  std::vector<std::uint32_t> mention_begin_;       // by pc
  std::vector<bool> leader_;                       // by pc
  std::vector<std::uint32_t> code_line_;           // by pc
  Scheduler scheduler_;
  std::vector<Warp> warps_;
  std::vector<double> ready_;
  std::vector<Stall> producer_;
  std::vector<std::uint32_t> free_registers_;
  std::vector<Phase> phases_;
  std::vector<Sm> sms_;
  std::vector<std::uint32_t> members_;  // CTAs by cluster and rank
  std::vector<std::uint32_t> slot_of_;  // by cluster
  std::vector<std::uint32_t> cta_left_, cluster_left_;
  std::uint32_t next_cluster_ = 0, clusters_ = 0;
  double next_start_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::uint64_t unfinished_ = 0;
};

}  // namespace sglab::emu::timing
