#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "observe/sanitize/detector.hpp"

namespace sglab::emu {

// Finds registers of wgmma.mma_async (accumulators, and A where it comes from registers) that are touched at
// the wrong time: before the wgmma and no wgmma.fence after ("missing_wgmma_fence"), or before the wait that
// covers it ("missing_wgmma_wait"). PTX ISA, "wgmma.fence" and "Asynchronous warpgroup level matrix
// instructions: Register accesses". Products that follow each other in one accumulator need no fence between
// them.
//
// Registers are those of the PTX text: what the allocator makes of them, on a GPU or here, is not looked at.
// A warp's lanes are taken together.
class WgmmaRegisters final : public Detector {
 public:
  using Detector::Detector;

  void launched(const Launch& launch) override;
  void cluster_finished(const Cluster& cluster) override;
  void fenced(const Actor& actor, const Fence& fence) override;
  void committed(const Actor& actor, GroupKind group) override;
  void waited(const Actor& actor, GroupKind group, std::uint32_t pending, bool read_only) override;

  // Whether executed() must be notified of the instruction.
  bool follows(std::uint32_t pc) const {
    return !uses_->first.empty() && uses_->first[pc] != uses_->first[pc + 1];
  }
  void executed(const Actor& actor);

 private:
  // What an instruction does with a register that some wgmma names.
  struct Use {
    std::uint32_t reg;  // number in Uses::names
    bool writes;
    bool accumulator;  // of a wgmma; otherwise its A
    bool moves;        // a mov: a constant or a copy
  };
  // Registers of one wgmma whose numbers follow each other.
  struct Run {
    std::uint32_t reg, count;
    bool accumulator;
  };
  // What a program does with such registers.
  struct Uses {
    std::vector<std::uint32_t> first;  // by instruction: its uses; empty: no wgmma in this program
    std::vector<Use> all;
    std::vector<std::uint32_t> first_run;  // by instruction, of those of a wgmma
    std::vector<Run> runs;
    std::vector<bool> is_wgmma;      // by instruction
    std::vector<std::string> names;  // of the registers
  };
  // An earlier instruction of the warp.
  struct Earlier {
    std::uint32_t pc = 0, lanes = 0;
    std::uint64_t position = 0;
    bool wrote = false;
  };
  struct WarpState {
    std::uint32_t fences = 0;
    std::uint32_t issued = 0, complete = 0;  // wgmma operations
    std::vector<std::uint32_t> groups;       // issued when each was committed
    // By register. A wgmma names hundreds, mostly all alike.
    std::vector<std::uint32_t> touched;     // see read_since(); 0: not since the last wgmma
    std::vector<std::uint32_t> flight;      // the last wgmma that uses it, from 1 on; 0: none
    std::vector<std::uint8_t> accumulates;  // whether that one does
    std::vector<Earlier> touchers;
    std::vector<Earlier> flying;  // wgmmas after the `complete` ones

    // As new; its memory is kept.
    void reset() {
      fences = issued = complete = 0;
      groups.clear();
      touched.clear();
      flight.clear();
      accumulates.clear();
      touchers.clear();
      flying.clear();
    }
  };
  // WarpState::touched of a register that was read, or written, after the last fence; before it: less.
  static std::uint32_t read_since(const WarpState& state) { return 2 * state.fences + 1; }
  static std::uint32_t written_since(const WarpState& state) { return 2 * state.fences + 2; }
  void begin(const Cluster& cluster);
  static Uses uses_of(const Program& program);
  static void find_runs(Uses& uses);
  WarpState& of(const Actor& actor) {
    if (cached_ != actor.warp->cluster) {
      cached_ = actor.warp->cluster;
      cached_warps_ = &clusters_[cached_->index];
      if (cached_warps_->empty()) begin(*cached_);
    }
    return (*cached_warps_)[actor.warp->slot];
  }
  void touch(const Actor& actor, WarpState& state, const Use& use);
  static bool issue_settled(WarpState& state, const Run& run);
  void issue(const Actor& actor, WarpState& state, const Run& run);
  // Of a register in flight: the wgmma that uses it.
  static Earlier user_of(const WarpState& state, std::uint32_t reg);
  void report(const char* kind, std::string message, const Actor& actor, const std::optional<Earlier>& other);

  const Uses* uses_ = nullptr;
  // By Cluster::index; by Warp::slot. Made at the first use.
  std::unordered_map<std::uint64_t, std::vector<WarpState>> clusters_;
  const Cluster* cached_ = nullptr;
  std::vector<WarpState>* cached_warps_ = nullptr;
  std::vector<std::vector<WarpState>> spare_;  // of clusters that have finished
};

}  // namespace sglab::emu
