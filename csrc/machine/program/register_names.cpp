#include "machine/program/register_names.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "machine/program/builder.hpp"
#include "machine/program/decoder.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kPlaceUnit = 64;  // places of values are multiples of this

// A constant operand of 32 bits; nothing for a register.
std::optional<std::uint32_t> constant(const Program& program, Ref ref) {
  if ((ref & kConstantRef) == 0) return std::nullopt;
  std::uint32_t value;
  std::memcpy(&value, program.constants.data() + (ref & ~kConstantRef), sizeof value);
  return value;
}

bool leaves_a_half(const Program& program, std::uint32_t pc) {
  const Effects& e = program.effects[pc];
  const std::optional<std::uint32_t> b = constant(program, program.code[pc].b);
  switch (e.taint) {
    case TaintRule::kShiftRight:
      return e.type == Type::kU32 && b && *b >= 16 && *b < 32;
    case TaintRule::kLogic:
      return e.value == Value::kAnd && e.type == Type::kB32 && b && *b == 0xffff;
    case TaintRule::kConvert:
      return e.to == Type::kU32 && e.type == Type::kU16;
    default:
      return false;
  }
}

}  // namespace

RegisterNames::RegisterNames(const Program& program)
    : program_(program),
      values_(program.register_bytes / kPlaceUnit + 1),
      predicates_(program.predicates + 1) {
  for (const ProgramFunction& function : program.functions) {
    const Function& source = program.image->module().functions[function.source];
    for (std::uint32_t i = 0; i < source.registers.size(); ++i) {
      const std::uint32_t reg = function.first_register + i;
      const Ref place = program.registers[reg];
      if (place == kConstantRef) continue;
      auto& here = letter_of(source.registers[i]) == 'p' ? predicates_[place] : values_[place / kPlaceUnit];
      here.push_back({reg, &source, i});
    }
  }
  for (Places* const places : {&values_, &predicates_}) {
    for (std::vector<Named>& here : *places) {
      std::sort(here.begin(), here.end(),
                [&](const Named& a, const Named& b) { return start(a) < start(b); });
    }
  }
}

const RegisterNames::Named* RegisterNames::find(const Mention& m) const {
  const std::vector<Named>& here = m.predicate ? predicates_[m.place] : values_[m.place / kPlaceUnit];
  // Instructions read in the first half of their step unless they work on whole warps.
  for (std::uint32_t at = 2 * m.inst + (m.definition ? 1 : 0); at <= 2 * m.inst + 1; ++at) {
    // Their lifetimes do not overlap.
    const auto after =
        std::upper_bound(here.begin(), here.end(), at,
                         [&](std::uint32_t wanted, const Named& one) { return wanted < start(one); });
    if (after != here.begin() && at <= program_.lifetimes[(after - 1)->reg].end) return &*(after - 1);
  }
  return nullptr;
}

std::vector<std::uint32_t> writers_of(const Program& program, std::string_view name) {
  const RegisterNames names(program);
  std::vector<std::uint32_t> found;
  for (const Mention& m : program.mentions) {
    if (!m.definition || m.field == kNoField || (!found.empty() && found.back() == m.inst)) continue;
    const RegisterNames::Named* const named = names.find(m);
    if (named != nullptr && register_name(*named->function, named->index) == name) found.push_back(m.inst);
  }
  return found;
}

std::vector<bool> converts_halves(const Program& program) {
  std::vector<bool> found(program.code.size());
  const auto& effects = program.effects;
  if (std::none_of(effects.begin(), effects.end(),
                   [](const Effects& e) { return e.cost == Cost::kIntegerToFloat; }))
    return found;
  const RegisterNames names(program);
  std::unordered_set<std::uint32_t> halves;
  for (const Mention& m : program.mentions) {
    if (!m.definition || m.predicate || !leaves_a_half(program, m.inst)) continue;
    if (const RegisterNames::Named* const named = names.find(m)) halves.insert(named->reg);
  }
  for (const Mention& m : program.mentions) {
    const bool source = !m.definition && m.field == static_cast<std::uint16_t>(Field::kA);
    if (!source || effects[m.inst].cost != Cost::kIntegerToFloat) continue;
    const RegisterNames::Named* const named = names.find(m);
    found[m.inst] = named != nullptr && halves.contains(named->reg);
  }
  return found;
}

}  // namespace sglab::emu
