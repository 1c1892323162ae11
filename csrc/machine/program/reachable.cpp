#include "machine/program/reachable.hpp"

#include <string_view>

namespace sglab::emu {
namespace {

// Where control may go from an instruction.
void successors(const Program& program, std::uint32_t pc, std::vector<std::uint32_t>& next) {
  const Inst& inst = program.code[pc];
  const std::string_view opcode = opcode_of(program, pc);
  const bool guarded = inst.guard != kNoGuard;
  const bool leaves = opcode == "exit" || opcode.starts_with("ret") || opcode == "trap";
  const bool jumps = opcode.starts_with("bra");
  if (jumps) next.push_back(inst.target);
  if (opcode.starts_with("brx")) {
    for (const std::int64_t target : inst.extra->values) next.push_back(static_cast<std::uint32_t>(target));
    return;
  }
  if (opcode.starts_with("call")) {
    for (const ProgramFunction& function : program.functions) next.push_back(function.begin);
  }
  if ((!leaves && !jumps) || guarded) next.push_back(pc + 1);
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
