#include "observe/sanitize/reach.hpp"

namespace sglab::emu {

std::optional<AddressOperand> mbarrier_operand(const Program& program, std::uint32_t pc) {
  const Inst& inst = program.code[pc];
  switch (program.effects[pc].mbarrier) {
    case MbarrierAt::kAddress:
      return main_address(&inst);
    case MbarrierAt::kPayload:
      return extra_address(&inst, *inst.extra->mbarrier);
    case MbarrierAt::kNowhere:
      break;
  }
  return std::nullopt;
}

std::vector<std::uint32_t> reachable(const Program& program, std::uint32_t pc, std::uint8_t what) {
  const std::vector<bool> seen = reachable(program, pc);
  std::vector<std::uint32_t> found;
  for (std::uint32_t at = 0; at < seen.size(); ++at) {
    if (seen[at] && (program.effects[at].releases & what) != 0) found.push_back(at);
  }
  return found;
}

}  // namespace sglab::emu
