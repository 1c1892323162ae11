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
  find_runs(made);
  return made;
}

void WgmmaRegisters::find_runs(Uses& uses) {
  for (std::size_t pc = 0; pc < uses.is_wgmma.size(); ++pc) {
    uses.first_run.push_back(static_cast<std::uint32_t>(uses.runs.size()));
    if (!uses.is_wgmma[pc]) continue;
    for (std::uint32_t i = uses.first[pc]; i < uses.first[pc + 1]; ++i) {
      const Use& use = uses.all[i];
      Run* const last = i == uses.first[pc] ? nullptr : &uses.runs.back();
      if (last != nullptr && last->accumulator == use.accumulator && last->reg + last->count == use.reg) {
        ++last->count;
      } else {
        uses.runs.push_back({use.reg, 1, use.accumulator});
      }
    }
  }
  uses.first_run.push_back(static_cast<std::uint32_t>(uses.runs.size()));
}

void WgmmaRegisters::begin(const Cluster& cluster) {
  std::vector<WarpState>& warps = clusters_[cluster.index];
  if (!spare_.empty()) {
    warps = std::move(spare_.back());
    spare_.pop_back();
    for (WarpState& state : warps) state.reset();
  }
  warps.resize(cluster.warps.size());
}

void WgmmaRegisters::cluster_finished(const Cluster& cluster) {
  cached_ = nullptr;
  const auto found = clusters_.find(cluster.index);
  if (found == clusters_.end()) return;
  spare_.push_back(std::move(found->second));
  clusters_.erase(found);
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
  if (state.touched.empty()) {
    const std::size_t count = uses_->names.size();
    state.touched.resize(count);
    state.flight.resize(count);
    state.accumulates.resize(count);
    state.touchers.resize(count);
  }
  if (!uses_->is_wgmma[pc]) {
    const bool idle = state.flying.empty();
    for (std::uint32_t i = uses_->first[pc]; i < uses_->first[pc + 1]; ++i) {
      const Use& use = uses_->all[i];
      // Constants say nothing while no wgmma is in flight; of several touches a write says most.
      if (idle && (use.moves || state.touched[use.reg] == written_since(state))) continue;
      touch(actor, state, use);
    }
    return;
  }
  ++state.issued;
  state.flying.push_back({pc, actor.lanes, actor.position, false});
  if (state.fences == 0)
    report("missing_wgmma_fence", "no wgmma.fence comes before the first wgmma of the warp", actor,
           std::nullopt);
  for (std::uint32_t i = uses_->first_run[pc]; i < uses_->first_run[pc + 1]; ++i) {
    const Run& run = uses_->runs[i];
    if (!issue_settled(state, run)) issue(actor, state, run);
  }
}

void WgmmaRegisters::touch(const Actor& actor, WarpState& state, const Use& use) {
  std::uint32_t& flight = state.flight[use.reg];
  const bool accumulates = state.accumulates[use.reg] != 0;
  if (flight > state.complete && (accumulates || use.writes)) {
    report("missing_wgmma_wait",
           "register " + uses_->names[use.reg] + " is " + (use.writes ? "written" : "read") +
               " while a wgmma that " + (accumulates ? "accumulates in it" : "reads it") +
               " is in flight: wgmma.wait_group is missing between",
           actor, user_of(state, use.reg));
    flight = 0;
  }
  // nvcc sets accumulators to constants after the fence that follows it in the source.
  if (use.moves) return;
  std::uint32_t& touched = state.touched[use.reg];
  if (touched == written_since(state)) return;
  touched = use.writes ? written_since(state) : read_since(state);
  state.touchers[use.reg] = {pc_of(actor), actor.lanes, actor.position, use.writes};
}

// Issues a wgmma for registers none of which was touched since the last fence; of A, that no other wgmma
// accumulates in. False: each must be looked at.
bool WgmmaRegisters::issue_settled(WarpState& state, const Run& run) {
  std::uint32_t* const touched = state.touched.data() + run.reg;
  std::uint32_t* const flight = state.flight.data() + run.reg;
  std::uint8_t* const accumulates = state.accumulates.data() + run.reg;
  const std::uint32_t since = read_since(state), complete = state.complete;
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < run.count; ++i) found |= touched[i] >= since ? 1u : 0u;
  for (std::uint32_t i = 0; i < run.count && !run.accumulator; ++i)
    found |= accumulates[i] != 0 && flight[i] > complete ? 1u : 0u;
  if (found != 0) return false;
  std::fill_n(touched, run.count, 0u);
  std::fill_n(flight, run.count, state.issued);
  std::fill_n(accumulates, run.count, static_cast<std::uint8_t>(run.accumulator));
  return true;
}

void WgmmaRegisters::issue(const Actor& actor, WarpState& state, const Run& run) {
  for (std::uint32_t reg = run.reg; reg < run.reg + run.count; ++reg) {
    const Earlier& toucher = state.touchers[reg];
    // Reading A twice is no hazard.
    if (state.touched[reg] >= read_since(state) && (run.accumulator || toucher.wrote)) {
      report("missing_wgmma_fence",
             "register " + uses_->names[reg] + " is " + (run.accumulator ? "accumulated in" : "read") +
                 " by a wgmma, and no wgmma.fence came after its last use",
             actor, toucher);
    } else if (!run.accumulator && state.accumulates[reg] != 0 && state.flight[reg] > state.complete) {
      report("missing_wgmma_wait",
             "register " + uses_->names[reg] +
                 " is read by a wgmma while another one that accumulates in it is in flight: "
                 "wgmma.wait_group is missing between",
             actor, user_of(state, reg));
    }
    state.touched[reg] = 0;
    state.flight[reg] = state.issued;
    state.accumulates[reg] = run.accumulator;
  }
}

WgmmaRegisters::Earlier WgmmaRegisters::user_of(const WarpState& state, std::uint32_t reg) {
  Earlier user = state.flying[state.flight[reg] - state.complete - 1];
  user.wrote = state.accumulates[reg] != 0;
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
