#include "machine/program/reachable.hpp"

#include "isa/effects.hpp"
#include "isa/extra.hpp"

namespace sglab::emu {
namespace {

// Where control may go from an instruction.
void successors(const Program& program, std::uint32_t pc, std::vector<std::uint32_t>& next) {
  const Inst& inst = program.code[pc];
  const Act act = program.effects[pc].act;
  if (act == Act::kBranch) next.push_back(inst.target);
  if (act == Act::kBranchTable) {
    const std::vector<std::uint32_t>& targets = payload<BranchTargets>(&inst).pcs;
    next.insert(next.end(), targets.begin(), targets.end());
    return;
  }
  if (act == Act::kCall) {
    for (const ProgramFunction& function : program.functions) next.push_back(function.begin);
  }
  const bool leaves = act == Act::kBranch || act == Act::kExit || act == Act::kTrap;
  if (!leaves || inst.guard != kNoGuard) next.push_back(pc + 1);
}

}  // namespace

std::vector<bool> reachable(const Program& program, std::uint32_t pc) {
  std::vector<bool> seen(program.code.size());
  std::vector<std::uint32_t> work{pc}, next;
  while (!work.empty()) {
    const std::uint32_t at = work.back();
    work.pop_back();
    if (at >= seen.size() || seen[at]) continue;
    seen[at] = true;
    next.clear();
    successors(program, at, next);
    work.insert(work.end(), next.begin(), next.end());
  }
  return seen;
}

}  // namespace sglab::emu
