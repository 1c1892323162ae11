#include "observe/sanitize/reach.hpp"

#include "machine/ops/tensor_copy.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

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

Releases releases(std::string_view opcode) {
  if (opcode.starts_with("barrier.cluster.arrive")) return kArrivesAtCluster;
  if (opcode.starts_with("bar.warp") || opcode.starts_with("barrier.cluster")) return kReleasesNothing;
  if (opcode.starts_with("bar.") || opcode.starts_with("barrier.")) return kArrivesAtBarrier;
  if (opcode.starts_with("mbarrier.arrive") || opcode.starts_with("mbarrier.complete_tx") ||
      opcode.starts_with("cp.async.mbarrier") || opcode.starts_with("tcgen05.commit") ||
      opcode.starts_with("st.async") || contains(opcode, "mbarrier::complete_tx"))
    return kArrivesAtMbarrier;
  if (opcode.starts_with("tcgen05.dealloc")) return kReleasesTmem;
  if (opcode.starts_with("wgmma.mma")) return kIssuesWgmma;
  return kReleasesNothing;
}

std::optional<AddressOperand> mbarrier_operand(const Program& program, std::uint32_t pc) {
  const Inst& inst = program.code[pc];
  const std::string_view opcode = opcode_of(program, pc);
  if (opcode.starts_with("tcgen05.commit")) return extra_address(&inst, 0, 0);
  if (opcode.starts_with("mbarrier.") || opcode.starts_with("cp.async.mbarrier")) return main_address(&inst);
  if (opcode.starts_with("st.async") || opcode.starts_with("red.async")) return extra_address(&inst, 1, 2);
  if (!contains(opcode, "mbarrier::complete_tx")) return std::nullopt;
  if (opcode.starts_with("cp.async.bulk.tensor")) return signalled_by_tensor_copy(&inst);
  return extra_address(&inst, 2, 4);  // cp.async.bulk, cp.reduce.async.bulk
}

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

std::vector<std::uint32_t> reachable(const Program& program, std::uint32_t pc, std::uint8_t what) {
  const std::vector<bool> seen = reachable(program, pc);
  std::vector<std::uint32_t> found;
  for (std::uint32_t at = 0; at < seen.size(); ++at) {
    if (seen[at] && (releases(opcode_of(program, at)) & what) != 0) found.push_back(at);
  }
  return found;
}

}  // namespace sglab::emu
