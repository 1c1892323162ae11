#include "observe/sanitize/joins.hpp"

#include <algorithm>

namespace sglab::emu {
namespace {

// The instructions of one function, numbered from 0, and its end as one more.
class Flowing {
 public:
  Flowing(const Program& program, const ProgramFunction& function)
      : program_(program), begin_(function.begin), end_(function.end - function.begin) {
    successors_.resize(end_);
    for (std::uint32_t at = 0; at < end_; ++at) find_successors(at);
    order_backwards();
    find_next_common();
  }

  std::uint32_t end() const { return end_; }
  const std::vector<std::uint32_t>& successors(std::uint32_t at) const { return successors_[at]; }
  // The first instruction behind this one that every way to the end comes to; kNoIndex: there is no way.
  std::uint32_t next_common(std::uint32_t at) const { return common_[at]; }

 private:
  void find_successors(std::uint32_t at) {
    const Inst& inst = program_.code[begin_ + at];
    const Act act = program_.effects[begin_ + at].act;
    std::vector<std::uint32_t>& next = successors_[at];
    if (act == Act::kBranch) next.push_back(inst.target - begin_);
    if (act == Act::kExit) next.push_back(end_);
    if (act == Act::kBranchTable) {
      for (const std::uint32_t target : payload<BranchTargets>(&inst).pcs) next.push_back(target - begin_);
      return;
    }
    const bool leaves = act == Act::kBranch || act == Act::kExit || act == Act::kTrap;
    if (!leaves || inst.guard != kNoGuard) next.push_back(at + 1);
  }

  // Postorder from the end against the flow; what never ends is left out.
  void order_backwards() {
    std::vector<std::vector<std::uint32_t>> before(end_ + 1);
    for (std::uint32_t at = 0; at < end_; ++at) {
      for (const std::uint32_t next : successors_[at]) before[next].push_back(at);
    }
    position_.assign(end_ + 1, kNoIndex);
    std::vector<bool> seen(end_ + 1);
    std::vector<std::pair<std::uint32_t, std::size_t>> stack{{end_, 0}};
    seen[end_] = true;
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      if (next == before[at].size()) {
        position_[at] = static_cast<std::uint32_t>(postorder_.size());
        postorder_.push_back(at);
        stack.pop_back();
        continue;
      }
      const std::uint32_t from = before[at][next++];
      if (seen[from]) continue;
      seen[from] = true;
      stack.emplace_back(from, 0);
    }
  }

  // Cooper, Harvey and Kennedy's dominators, of the reversed flow.
  void find_next_common() {
    common_.assign(end_ + 1, kNoIndex);
    common_[end_] = end_;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto at = postorder_.rbegin() + 1; at != postorder_.rend(); ++at) {
        std::uint32_t best = kNoIndex;
        for (const std::uint32_t next : successors_[*at]) {
          if (common_[next] == kNoIndex) continue;
          best = best == kNoIndex ? next : meet(best, next);
        }
        changed = changed || best != common_[*at];
        common_[*at] = best;
      }
    }
  }

  std::uint32_t meet(std::uint32_t x, std::uint32_t y) const {
    while (x != y) {
      while (position_[x] < position_[y]) x = common_[x];
      while (position_[y] < position_[x]) y = common_[y];
    }
    return x;
  }

  const Program& program_;
  std::uint32_t begin_, end_;
  std::vector<std::vector<std::uint32_t>> successors_;
  std::vector<std::uint32_t> postorder_, position_, common_;
};

// Whether one of the ways from a branch to where they meet comes to something in `matters`.
bool has_on_the_way(const Flowing& flow, std::uint32_t branch, const std::vector<bool>& matters) {
  for (const std::uint32_t first : flow.successors(branch)) {
    for (std::uint32_t at = first; at != kNoIndex && at != flow.end() && at != flow.next_common(branch);
         at = flow.next_common(at)) {
      if (matters[at]) return true;
    }
  }
  return false;
}

// The first instruction of the PTX text from `at` on; kNoIndex: the kernel ends.
std::uint32_t first_of_text(const Program& program, const ProgramFunction& function, std::uint32_t at,
                            bool ends) {
  std::uint32_t pc = function.begin + at;
  for (std::uint32_t steps = 0; steps < 8 && pc < function.end; ++steps) {
    const Inst& inst = program.code[pc];
    const Act act = program.effects[pc].act;
    if (act == Act::kBranch && inst.guard == kNoGuard) {
      pc = inst.target;
    } else if (act == Act::kExit && inst.guard == kNoGuard && ends) {
      return kNoIndex;
    } else if (program.places[pc].line == 0 && act == Act::kNothing) {
      ++pc;
    } else {
      return pc;
    }
  }
  return kNoIndex;
}

void add_joins(const Program& program, const ProgramFunction& function, std::vector<bool> matters,
               Joins& made) {
  const Flowing flow(program, function);
  const bool ends = function.begin == 0;  // the kernel itself: others return to a caller
  std::vector<std::uint32_t> branches;
  for (std::uint32_t at = 0; at < flow.end(); ++at) {
    if (flow.successors(at).size() > 1 && program.effects[function.begin + at].act != Act::kExit &&
        flow.next_common(at) != kNoIndex)
      branches.push_back(at);
  }
  // A barrier lies on the ways of the branches around it, too.
  for (bool changed = true; changed;) {
    changed = false;
    std::erase_if(branches, [&](std::uint32_t branch) {
      if (!has_on_the_way(flow, branch, matters)) return false;
      matters[branch] = changed = true;
      const std::uint32_t join = flow.next_common(branch);
      if (join == flow.end()) return true;
      const std::uint32_t pc = first_of_text(program, function, join, ends);
      if (pc == kNoIndex) return true;
      made.of[function.begin + branch] = pc;
      made.is_join[pc] = 1;
      return true;
    });
  }
}

Joins found(const Program& program) {
  const std::size_t count = program.code.size();
  Joins made{std::vector<std::uint32_t>(count, kNoIndex), std::vector<std::uint8_t>(count)};
  std::vector<bool> matters(count);
  bool any = false;
  for (std::uint32_t pc = 0; pc < count; ++pc) {
    const bool barrier = is_barrier(program.effects[pc].act) && is_aligned(program, pc);
    any = any || barrier;
    matters[pc] = barrier || program.effects[pc].act == Act::kCall;
  }
  if (!any) return made;
  for (const ProgramFunction& function : program.functions) {
    add_joins(program, function,
              std::vector<bool>(matters.begin() + function.begin, matters.begin() + function.end), made);
  }
  return made;
}

}  // namespace

bool is_aligned(const Program& program, std::uint32_t pc) {
  const std::string_view opcode = opcode_of(program, pc);
  return (opcode.starts_with("bar.") && !opcode.starts_with("bar.warp.")) ||
         opcode.find(".aligned") != std::string_view::npos;
}

bool is_barrier(Act act) {
  return act == Act::kNamedArrive || act == Act::kNamedWait || act == Act::kClusterArrive ||
         act == Act::kClusterWait;
}

const Joins& joins_of(const Program& program) {
  return program.joins->get<Joins>([&] { return found(program); });
}

}  // namespace sglab::emu
