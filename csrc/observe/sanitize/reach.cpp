#include "observe/sanitize/reach.hpp"

#include "machine/ops/tensor_copy.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
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

std::vector<std::uint32_t> reachable(const Program& program, std::uint32_t pc, std::uint8_t what) {
  const std::vector<bool> seen = reachable(program, pc);
  std::vector<std::uint32_t> found;
  for (std::uint32_t at = 0; at < seen.size(); ++at) {
    if (seen[at] && (releases(opcode_of(program, at)) & what) != 0) found.push_back(at);
  }
  return found;
}

}  // namespace sglab::emu
