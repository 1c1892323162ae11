#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "timing/trace.hpp"

namespace sglab::emu::timing {

// Straight-line code in the order in which ptxas lets it issue. Positions count in the program's order.
struct Schedule {
  struct Result {
    std::uint32_t slot;
    std::uint16_t position;
  };

  std::vector<std::uint32_t> pcs;     // by position
  std::vector<std::uint16_t> order;   // positions, first to issue first
  std::vector<std::uint32_t> begin;   // by position: its range of sources
  std::vector<std::int32_t> sources;  // the position that fills it; ~slot of a register filled earlier
  std::vector<Result> results;        // the registers it leaves, and who filled them last
};

// Orders code as list schedulers do: what need not wait goes first; of that, what leads to most loads from
// global memory; of that, what the program has first. Registers are renamed; loads stay after the stores to
// their space, stores after all accesses to theirs.
class Scheduler {
 public:
  Scheduler(const Trace& trace, std::span<const std::uint32_t> mention_begin, double load_latency);

  // `pcs`: one after the other, or some iterations of a loop of such
  const Schedule& of(std::span<const std::uint32_t> pcs);

  // Whether ptxas would unroll a loop with this body: its branch compares what each trip adds something to.
  bool counted(std::span<const std::uint32_t> body);

 private:
  struct Edge {
    std::uint16_t from, to;
    double delay;
  };
  void find_sources(Schedule& s);
  std::vector<Edge> edges(const Schedule& s) const;
  void arrange(Schedule& s) const;
  double latency(std::uint32_t pc) const;

  const Trace& t_;
  std::span<const std::uint32_t> mention_begin_;
  double load_latency_;
  std::vector<std::int32_t> filled_by_;  // by register, while one schedule is made
  std::unordered_map<std::uint64_t, Schedule> made_;
  std::unordered_map<std::uint64_t, bool> counted_;
};

}  // namespace sglab::emu::timing
