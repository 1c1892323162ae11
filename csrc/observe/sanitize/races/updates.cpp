#include "observe/sanitize/races/updates.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace sglab::emu::races {
namespace {

constexpr std::uint32_t kFarthest = 128;  // instructions between load and store; unrolled loops have many

bool is_plain(const Effects& e) {
  return e.act == Act::kAccess && !e.atomic && e.order == Order::kWeak && e.reads != e.writes;
}

bool same_address(const Inst& a, const Inst& b) {
  return a.mode == b.mode && a.a == b.a && a.imm == b.imm;
}

std::span<const Mention> mentions_of(const Program& program, std::uint32_t pc) {
  const auto [first, last] =
      std::equal_range(program.mentions.begin(), program.mentions.end(), Mention{pc, 0, 0, false, false},
                       [](const Mention& a, const Mention& b) { return a.inst < b.inst; });
  return {first, last};
}

bool defines(std::span<const Mention> mentions, Ref place) {
  return std::any_of(mentions.begin(), mentions.end(),
                     [&](const Mention& m) { return m.definition && !m.predicate && m.place == place; });
}

// The load that what a store writes was made from, at the same address, within straight code before it.
std::optional<std::uint32_t> load_of(const Program& program, std::uint32_t store) {
  const Inst& to = program.code[store];
  const bool by_register = to.mode == static_cast<std::uint8_t>(AddressMode::kReg32) ||
                           to.mode == static_cast<std::uint8_t>(AddressMode::kReg64);
  std::vector<Ref> made_from;
  for (const Mention& m : mentions_of(program, store)) {
    if (!m.definition && !m.predicate && !(by_register && m.place == to.a)) made_from.push_back(m.place);
  }
  for (std::uint32_t pc = store; pc-- > 0 && pc + kFarthest > store;) {
    const Effects& e = program.effects[pc];
    if (e.motion == Motion::kBranch) return std::nullopt;
    const std::span<const Mention> here = mentions_of(program, pc);
    const bool makes =
        std::any_of(made_from.begin(), made_from.end(), [&](Ref r) { return defines(here, r); });
    if (makes && is_plain(e) && e.reads && same_address(program.code[pc], to)) return pc;
    // What lanes reduce between them is one lane's to store.
    if (makes && e.act == Act::kWarpExchange) return std::nullopt;
    if (makes) {
      std::erase_if(made_from, [&](Ref r) { return defines(here, r); });
      for (const Mention& m : here) {
        if (!m.definition && !m.predicate) made_from.push_back(m.place);
      }
    }
    if (by_register && defines(here, to.a)) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool is_part_of_update(const Program& program, std::uint32_t pc) {
  if (!is_plain(program.effects[pc])) return false;
  if (program.effects[pc].writes) return load_of(program, pc).has_value();
  const auto end = static_cast<std::uint32_t>(std::min<std::size_t>(program.code.size(), pc + kFarthest));
  for (std::uint32_t at = pc + 1; at < end && program.effects[at].motion != Motion::kBranch; ++at) {
    const Effects& e = program.effects[at];
    if (is_plain(e) && e.writes && load_of(program, at) == pc) return true;
  }
  return false;
}

}  // namespace sglab::emu::races
