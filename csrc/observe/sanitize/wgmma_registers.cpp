#include "observe/sanitize/wgmma_registers.hpp"

#include <algorithm>
#include <utility>

#include "machine/ops/mma_operands.hpp"
#include "machine/ops/operands.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/register_names.hpp"

namespace sglab::emu {
namespace {

constexpr auto kExtraField = static_cast<std::uint16_t>(Field::kExtra);
constexpr std::uint32_t kNobody = 0xffffffffu;

}  // namespace

void WgmmaRegisters::launched(const Launch& launch) {
  clusters_.clear();
  cached_ = nullptr;
  const Program& program = *launch.program;
  uses_ = &program.wgmma_uses->get<Uses>([&] { return uses_of(program); });
}

WgmmaRegisters::Uses WgmmaRegisters::uses_of(const Program& program) {
  Uses made;
  std::vector<bool>& is_wgmma = made.is_wgmma;
  is_wgmma.assign(program.code.size(), false);
  for (std::uint32_t pc = 0; pc < program.code.size(); ++pc) {
    is_wgmma[pc] = (program.effects[pc].releases & kIssuesWgmma) != 0;
  }
  if (std::none_of(is_wgmma.begin(), is_wgmma.end(), [](bool is) { return is; })) return made;
  const RegisterNames names(program);
  // Extra::refs: accumulators, then A's registers.
  const auto operand_of = [&](const Mention& m) {
    return m.field < kExtraField ? kNobody : static_cast<std::uint32_t>(m.field - kExtraField);
  };
  std::unordered_map<std::uint32_t, std::uint32_t>
      numbers;  // in Uses::names, by number in Program::registers
  for (const Mention& m : program.mentions) {
    if (!is_wgmma[m.inst]) continue;
    const auto& wgmma = payload<WgmmaOperands>(&program.code[m.inst]);
    if (operand_of(m) >= wgmma.accumulators + wgmma.a_registers) continue;
    const RegisterNames::Named* const named = m.predicate ? nullptr : names.find(m);
    if (named == nullptr || !numbers.try_emplace(named->reg, made.names.size()).second) continue;
    made.names.push_back(register_name(*named->function, named->index));
  }
  std::vector<std::pair<std::uint32_t, Use>> found;
  for (const Mention& m : program.mentions) {
    const RegisterNames::Named* const named = m.predicate ? nullptr : names.find(m);
    const auto number = named == nullptr ? numbers.end() : numbers.find(named->reg);
    if (number == numbers.end()) continue;
    const bool wgmma = is_wgmma[m.inst];
    if (wgmma && operand_of(m) == kNobody) continue;
    const bool accumulator =
        wgmma && operand_of(m) < payload<WgmmaOperands>(&program.code[m.inst]).accumulators;
    if (accumulator && !m.definition) continue;                                      // mentioned twice
    const bool moves = !wgmma && program.effects[m.inst].taint == TaintRule::kPack;  // mov
    found.push_back({m.inst, {number->second, m.definition, accumulator, moves}});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  made.first.assign(program.code.size() + 1, 0);
  for (const auto& [pc, use] : found) {
    ++made.first[pc + 1];
    made.all.push_back(use);
  }
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) made.first[pc + 1] += made.first[pc];
  return made;
}

void WgmmaRegisters::cluster_started(const Cluster& cluster) {
  cached_ = nullptr;
  clusters_[cluster.index].assign(cluster.warps.size(), {});
}

void WgmmaRegisters::cluster_finished(const Cluster& cluster) {
  cached_ = nullptr;
  clusters_.erase(cluster.index);
}

void WgmmaRegisters::fenced(const Actor& actor, const Fence& fence) {
  if (fence.kind == Fence::Kind::kWgmma) ++of(actor).fences;
}

void WgmmaRegisters::committed(const Actor& actor, GroupKind group) {
  if (group != GroupKind::kWgmma) return;
  WarpState& state = of(actor);
  state.groups.push_back(state.issued);
}

void WgmmaRegisters::waited(const Actor& actor, GroupKind group, std::uint32_t pending, bool) {
  if (group != GroupKind::kWgmma) return;
  WarpState& state = of(actor);
  if (state.groups.size() <= pending) return;
  const auto over = state.groups.end() - static_cast<std::ptrdiff_t>(pending);
  const std::uint32_t complete = *(over - 1);
  state.flying.erase(state.flying.begin(), state.flying.begin() + (complete - state.complete));
  state.complete = complete;
  state.groups.erase(state.groups.begin(), over);
}

void WgmmaRegisters::executed(const Actor& actor) {
  const std::uint32_t pc = pc_of(actor);
  WarpState& state = of(actor);
  if (state.registers.empty()) {
    state.registers.resize(uses_->names.size());
    state.touchers.resize(uses_->names.size());
  }
  if (uses_->is_wgmma[pc]) {
    ++state.issued;
    state.flying.push_back({pc, actor.lanes, actor.position, false});
    if (state.fences == 0)
      report("missing_wgmma_fence", "no wgmma.fence comes before the first wgmma of the warp", actor,
             std::nullopt);
  }
  for (std::uint32_t i = uses_->first[pc]; i < uses_->first[pc + 1]; ++i) {
    if (uses_->is_wgmma[pc]) {
      issue(actor, state, uses_->all[i]);
    } else {
      touch(actor, state, uses_->all[i]);
    }
  }
}

void WgmmaRegisters::touch(const Actor& actor, WarpState& state, const Use& use) {
  Register& reg = state.registers[use.reg];
  if (reg.flight > state.complete && (reg.accumulates || use.writes)) {
    report("missing_wgmma_wait",
           "register " + uses_->names[use.reg] + " is " + (use.writes ? "written" : "read") +
               " while a wgmma that " + (reg.accumulates ? "accumulates in it" : "reads it") +
               " is in flight: wgmma.wait_group is missing between",
           actor, user_of(state, reg));
    reg.flight = 0;
  }
  // nvcc sets accumulators to constants after the fence that follows it in the source.
  if (use.moves) return;
  // Of several touches a write says more than a read.
  Earlier& toucher = state.touchers[use.reg];
  if (reg.touched == state.fences + 1 && toucher.wrote) return;
  reg.touched = state.fences + 1;
  toucher = {pc_of(actor), actor.lanes, actor.position, use.writes};
}

void WgmmaRegisters::issue(const Actor& actor, WarpState& state, const Use& use) {
  Register& reg = state.registers[use.reg];
  const Earlier& toucher = state.touchers[use.reg];
  // Reading A twice is no hazard.
  if (reg.touched == state.fences + 1 && (use.accumulator || toucher.wrote)) {
    report("missing_wgmma_fence",
           "register " + uses_->names[use.reg] + " is " + (use.accumulator ? "accumulated in" : "read") +
               " by a wgmma, and no wgmma.fence came after its last use",
           actor, toucher);
  } else if (!use.accumulator && reg.accumulates && reg.flight > state.complete) {
    report(
        "missing_wgmma_wait",
        "register " + uses_->names[use.reg] +
            " is read by a wgmma while another one that accumulates in it is in flight: wgmma.wait_group is "
            "missing between",
        actor, user_of(state, reg));
  }
  reg.touched = 0;
  reg.flight = state.issued;
  reg.accumulates = use.accumulator;
}

WgmmaRegisters::Earlier WgmmaRegisters::user_of(const WarpState& state, const Register& reg) {
  Earlier user = state.flying[reg.flight - state.complete - 1];
  user.wrote = reg.accumulates;
  return user;
}

void WgmmaRegisters::report(const char* kind, std::string message, const Actor& actor,
                            const std::optional<Earlier>& other) {
  Finding finding;
  finding.detector = "races";
  finding.kind = kind;
  finding.message = std::move(message);
  finding.at = party(actor);
  if (other) {
    finding.other = finding.at;
    finding.other.pc = other->pc;
    finding.other.lanes = other->lanes;
    finding.other.position = other->position;
    finding.other_did = other->wrote ? "wrote it" : "read it";
  }
  findings.report(std::move(finding));
}

}  // namespace sglab::emu
