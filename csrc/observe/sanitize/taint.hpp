#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "machine/ops/operands.hpp"
#include "observe/sanitize/detector.hpp"

namespace sglab::emu {

// Which registers hold a value that comes from something that was never written, by lane.
//
// Registers that the kernel may read before it has written them are tainted from the start; data flow
// analysis finds which those are, and most kernels have none. A warp without tainted registers costs nothing.
class Taint {
 public:
  using Rule = TaintRule;
  // What an instruction reads of what was never written: the value that it loads or an operand in shared
  // memory, operands of tcgen05.mma in tensor memory, and cells that it adds to.
  enum class Read : std::uint8_t { kValue, kCell, kAccumulator };
  // Where a tainted value was read; without a space, from a lane that did not take part in a shfl.sync.
  struct Origin {
    Party at;
    std::string space;
    std::uint64_t address = 0, bytes = 0;
    Read read = Read::kValue;
  };
  // Tainted lanes, for each quarter of a register, the lowest first: compilers pack values with nothing. A
  // byte of a narrow register has several.
  struct Mask {
    static constexpr unsigned kParts = 4;
    std::uint32_t part[kParts]{};
    // The instruction that loaded it; past the last: registers of Program::unset; past these: further
    // values that instructions loaded.
    std::uint32_t origin = 0;
    std::uint32_t low() const { return part[0] | part[1]; }
    std::uint32_t high() const { return part[2] | part[3]; }
    std::uint32_t lanes() const { return low() | high(); }
    void add(const Mask& other) {
      if (other.lanes() == 0) return;
      for (unsigned i = 0; i < kParts; ++i) part[i] |= other.part[i];
      origin = other.origin;
    }
    // Leaves out all other lanes.
    void keep(std::uint32_t lanes) {
      for (std::uint32_t& one : part) one &= lanes;
    }
    static Mask all(std::uint32_t lanes, std::uint32_t origin) { return halves(lanes, lanes, origin); }
    static Mask halves(std::uint32_t low, std::uint32_t high, std::uint32_t origin) {
      return {{low, low, high, high}, origin};
    }
  };
  // The bytes of a value of `bytes` that one of its quarters has a part in.
  struct Bytes {
    std::uint32_t begin, end;
  };
  static Bytes bytes_of_part(unsigned part, std::uint32_t bytes) {
    const std::uint32_t begin = bytes * part / Mask::kParts;
    return {begin, std::max(begin + 1, bytes * (part + 1) / Mask::kParts)};
  }

  static constexpr std::uint32_t kSlotUnit = 64;  // places of registers are multiples of this

  explicit Taint(Findings& findings) : findings_(findings) {}
  void launched(const Program& program);
  void cluster_started(const Cluster& cluster);
  void cluster_finished(const Cluster& cluster);
  // Whether an instruction may read or write something tainted. While only registers are tainted that were so
  // from the start, those that mention none of them need not be looked at: registers are told apart by 64
  // marks.
  bool follows(const Warp& w, std::uint32_t pc) {
    if (derived_ == 0 && mentions_unset_[pc] == 0) return false;
    const Registers& registers = known(w);
    return registers.derived != 0 || (registers.unset & mentions_unset_[pc]) != 0;
  }

  // Whether it may be so although nothing has spread from a register that was tainted from the start.
  bool may_follow(std::uint32_t pc) const { return mentions_unset_[pc] != 0; }
  bool spread() const { return derived_ != 0; }

  Rule rule(std::uint32_t pc) const { return program_->effects[pc].taint; }
  // What the instruction mentions, in the order of its fields.
  std::pair<const Mention*, const Mention*> mentions(std::uint32_t pc) {
    if (first_.empty()) prepare();
    return {program_->mentions.data() + first_[pc], program_->mentions.data() + first_[pc + 1]};
  }
  Mask of(const Warp& w, const Mention& mention);
  // The destination's lanes in `lanes` become tainted where `mask` says, clean elsewhere.
  void assign(const Warp& w, const Mention& destination, std::uint32_t lanes, Mask mask);
  // What a store of `bytes` takes of a register.
  Mask stored(const Warp& w, const Mention& source, std::uint32_t bytes);
  // What a register gets from a load of an element that `mask` describes.
  Mask loaded_into(const Mention& destination, Type element, Mask mask);
  // An `and`, `or`, lop3 or a comparison combined with a predicate is about to be executed: which parts of
  // its results depend on what is tainted.
  void look_at_logic(const Warp& w, const Inst* inst);
  // Something whose result depends on all of a set of lanes is about to be executed: the sets, before
  // registers change.
  void look_at_members(const Warp& w, const Inst* inst) { std::copy_n(lanes32(w, inst->b), 32, members_); }
  // A shfl.sync is about to be executed: where each lane takes its value from, before registers change.
  void look_at_shuffle(const Warp& w, const Inst* inst);
  // It has been executed. Whether some lane took its value from one that did not take part.
  bool found_absent(const Actor& actor, std::uint32_t all);
  // An exchange has been executed by some of `all`, who take part in it at several instructions.
  void meet(const Actor& actor, std::uint32_t all);
  // The rules that need no memory.
  void flow(const Actor& actor, std::uint32_t group);
  // A tainted value decides something: a finding, if any of its lanes does. `how`: "decides where control
  // goes".
  void decides(const Actor& actor, const Mention& source, std::uint32_t lanes, const char* how);
  // The value that the instruction loads was never written.
  std::uint32_t loaded(const Actor& actor, const char* space, std::uint64_t address, std::uint64_t bytes,
                       Read read = Read::kValue);

 private:
  // What lanes at several instructions give each other.
  struct Met {
    std::uint32_t all, left;  // `left`: have not executed theirs yet
    Mask given;
  };
  struct Registers {
    bool begun = false;  // holds Program::unset; most warps of a large grid leave before they come to one
    std::vector<std::pair<std::uint32_t, Mask>> tainted;  // by key, rising: mostly a handful
    auto at(std::uint32_t key) {
      return std::lower_bound(tainted.begin(), tainted.end(), key,
                              [](const auto& one, std::uint32_t wanted) { return one.first < wanted; });
    }
    std::uint32_t derived = 0;                // of these, that are not registers of Program::unset
    std::uint64_t unset = ~std::uint64_t{0};  // marks of those that are,
    std::array<std::uint16_t, 64> marked{};   // and how many have each
    std::vector<Met> met;                     // while lanes are at several instructions

    // As new; its memory is kept.
    void reset() {
      if (!begun && met.empty()) return;
      begun = false;
      tainted.clear();
      derived = 0;
      unset = ~std::uint64_t{0};
      marked.fill(0);
      met.clear();
    }
  };
  // The operands a, b, c and a lop3's predicate.
  struct LogicSources {
    Mask unknown[4];
    bool compares = false;  // with a predicate c
  };
  void prepare();
  void find_unset();
  Registers& known(const Warp& w) {
    if (cached_ != w.cluster) {
      cached_ = w.cluster;
      cached_warps_ = &clusters_[w.cluster->index];
    }
    return (*cached_warps_)[w.slot];
  }
  Registers& warp(const Warp& w);
  void count(Registers& registers, std::uint32_t key, bool tainted);
  void combine(const Warp& w, const Inst* inst, const LogicSources& from, const Mention& result);
  void compare(const Warp& w, const Inst* inst, const LogicSources& from, const Mention& result);
  void look_up(const Warp& w, const Inst* inst, const LogicSources& from);
  unsigned bytes_of(const Mention& m);
  // A source's part in the taint of a result.
  Mask taken(const Actor& actor, const Mention& source, unsigned result_bytes);
  std::uint32_t shuffled(const Actor& actor, std::uint32_t source) const;
  void shuffle(const Actor& actor, Mask& in);
  Mask given(const Actor& actor);
  std::uint32_t sets_with(const Actor& actor, std::uint32_t lanes) const;
  void take(const Actor& actor, Mask& in);
  void compute(const Actor& actor, std::uint32_t group);
  void select(const Actor& actor, std::uint32_t group);
  void pack(const Actor& actor);
  void wgmma(const Actor& actor);
  std::string name_of(const Mention& mention) const;
  static std::string said(const Origin& origin);

  Findings& findings_;
  const Program* program_ = nullptr;
  std::vector<std::uint64_t> mentions_unset_;  // by instruction: marks of its registers of Program::unset
  std::unordered_map<std::uint32_t, std::uint32_t> unset_;              // whose marks are these, by key
  std::vector<std::uint32_t> first_;                                    // by instruction: its mentions
  std::vector<std::uint8_t> register_bytes_;                            // of a lane, by place / kSlotUnit
  std::unordered_map<std::uint32_t, Origin> origins_;                   // by instruction that loaded
  std::unordered_map<std::uint64_t, std::vector<Registers>> clusters_;  // by Cluster::index; by Warp::slot
  Registers at_start_;                                                  // of a warp that begins
  std::vector<std::vector<Registers>> spare_;                           // of clusters that have finished
  Mask logic_[2];  // of what look_at_logic() has looked at: what goes to Inst::d and to Inst::target
  // Of the shfl.sync that is executed, by lane.
  std::uint32_t sources_[32]{};  // where it takes its value from
  std::uint32_t members_[32]{};
  std::uint32_t absent_ = 0;   // its lanes whose source did not take part
  std::uint64_t derived_ = 0;  // of all running warps
  const Cluster* cached_ = nullptr;
  std::vector<Registers>* cached_warps_ = nullptr;
};

}  // namespace sglab::emu
