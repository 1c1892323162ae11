#include "observe/sanitize/hot_loop.hpp"

#include <bit>
#include <cstring>

#include "isa/aperture.hpp"
#include "machine/engine/counted.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/launch.hpp"
#include "machine/ops/operands.hpp"

namespace sglab::emu {
namespace {

struct Loop {
  std::uint32_t begin = 0, end = 0;  // [begin, end]: from the target to the branch back
  std::uint64_t times = 0;
};

// The innermost of the loops that ran most often.
Loop hottest(const Program& program, const std::vector<std::uint64_t>& executions) {
  Loop best;
  for (std::uint32_t pc = 0; pc < program.code.size(); ++pc) {
    const std::uint32_t target = program.code[pc].target;
    if (program.effects[pc].act != Act::kBranch || target > pc) continue;
    const bool tighter = executions[pc] == best.times && pc - target < best.end - best.begin;
    if (executions[pc] > best.times || (tighter && best.times != 0)) best = {target, pc, executions[pc]};
  }
  return best;
}

// A warp inside the loop, and the lane that looks for it.
const Warp* warp_inside(const Loop& loop, const std::vector<const Cluster*>& clusters, int& lane) {
  for (const Cluster* const cluster : clusters) {
    for (const Warp& w : cluster->warps) {
      for (std::uint32_t i = 0; i < w.group_count; ++i) {
        if (w.groups[i].pc < loop.begin || w.groups[i].pc > loop.end) continue;
        lane = std::countr_zero(w.groups[i].mask);
        return &w;
      }
    }
  }
  return nullptr;
}

std::string in_global(const Warp& w, std::uint64_t address, unsigned bytes) {
  const Allocation* const found = w.launch->find(address, bytes);
  if (found == nullptr) return {};
  std::uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(address), bytes < 8 ? bytes : 8);
  return " of global memory at " + hex(address) +
         (found->name.empty()
              ? ""
              : " (byte " + std::to_string(address - found->begin) + " of '" + found->name + "')") +
         ", which hold " + std::to_string(value);
}

std::string polled(const Warp& w, std::uint32_t pc, int lane) {
  const Program& program = *w.program;
  const Effects& effects = program.effects[pc];
  const std::uint64_t address = address_of(w, main_address(&program.code[pc]), lane);
  if (effects.act == Act::kMbarrierWait)
    return "; it polls the mbarrier at shared address " + hex(without_aperture(address));
  const std::string size = "; it polls " + std::to_string(effects.bytes) + " bytes";
  const bool shared = effects.space == Space::kShared || (address & kApertureMask) == kSharedAperture;
  if (shared) return size + " of shared memory at " + hex(without_aperture(address));
  const std::string text = in_global(w, address, effects.bytes);
  return text.empty() ? text : size + text;
}

}  // namespace

std::string describe_hot_loop(const Program& program, const std::vector<std::uint64_t>& executions,
                              const std::vector<const Cluster*>& clusters) {
  const Loop loop = hottest(program, executions);
  if (loop.times == 0) return {};
  std::uint32_t first = loop.begin;
  while (first < loop.end && program.places[first].line == 0) ++first;
  const std::string source = source_of(program.image->module(), program.places[loop.end].location);
  std::string text = "; the loop of PTX lines " + std::to_string(program.places[first].line) + " to " +
                     std::to_string(program.places[loop.end].line) +
                     (source.empty() ? "" : " (" + source + ")") + " ran " + counted(loop.times) + " times";
  int lane = 0;
  const Warp* const w = warp_inside(loop, clusters, lane);
  if (w == nullptr) return text;
  for (std::uint32_t pc = loop.end; pc + 1 > loop.begin; --pc) {
    if (polls(program.effects[pc])) return text + polled(*w, pc, lane);
    if (pc == 0) break;
  }
  return text;
}

}  // namespace sglab::emu
