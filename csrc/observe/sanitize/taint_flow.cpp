#include <algorithm>
#include <bit>
#include <utility>

#include "machine/ops/members.hpp"
#include "machine/ops/mma_operands.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/shuffle.hpp"
#include "machine/program/builder.hpp"
#include "observe/sanitize/taint.hpp"

// Taint from sources to results, for instructions that touch no memory.
namespace sglab::emu {
namespace {

using Rule = Taint::Rule;

constexpr auto kGuard = static_cast<std::uint16_t>(Field::kGuard);

// What lanes say to all: a quarter of theirs is a quarter of the result for redux.sync.and, .or and .xor, of
// everything else all of it.
template <class F>
Taint::Mask said_to_all(const Effects& how, const Taint::Mask& in, F reached) {
  if (how.cost != Cost::kReduce || how.type != Type::kB32)
    return Taint::Mask::all(reached(in.lanes()), in.origin);
  Taint::Mask out = in;
  for (std::uint32_t& lanes : out.part) lanes = lanes == 0 ? 0 : reached(lanes);
  return out;
}

}  // namespace

// The lanes that exchange something with `lanes`, by the member masks that were in Inst::b if there are any.
std::uint32_t Taint::sets_with(const Actor& actor, std::uint32_t lanes) const {
  if (program_->effects[pc_of(actor)].act != Act::kWarpExchange) return actor.lanes;
  std::uint32_t reached = 0;
  for (std::uint32_t rest = lanes; rest != 0; rest &= ~reached) {
    const std::uint32_t first = std::countr_zero(rest), members = members_[first];
    reached |= 1u << first;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if (members_[lane] == members) reached |= 1u << lane;
    }
  }
  return reached & actor.lanes;
}

void Taint::flow(const Actor& actor, std::uint32_t group) {
  const auto [first, last] = mentions(pc_of(actor));
  switch (rule(pc_of(actor))) {
    case Rule::kDecide:
      for (const Mention* m = first; m != last; ++m) {
        if (!m->definition) decides(actor, *m, group, "decides where control goes");
      }
      return;
    case Rule::kControl:
      for (const Mention* m = first; m != last; ++m) {
        if (!m->definition)
          decides(actor, *m, actor.lanes, "is an operand of a barrier or of an asynchronous operation");
      }
      return compute(actor, group);
    case Rule::kSelect:
      return select(actor, group);
    case Rule::kPack:
      return pack(actor);
    case Rule::kWgmma:
      return wgmma(actor);
    case Rule::kNothing:
      return;
    default:
      return compute(actor, group);
  }
}

// What the lanes' sources say of their results.
Taint::Mask Taint::given(const Actor& actor) {
  const auto [first, last] = mentions(pc_of(actor));
  unsigned result_bytes = 1;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) result_bytes = bytes_of(*m);
  }
  Mask in;
  if (rule(pc_of(actor)) == Rule::kLogic) {
    in = logic_[0];
  } else {
    for (const Mention* m = first; m != last; ++m) {
      if (!m->definition && m->field != kGuard) in.add(taken(actor, *m, result_bytes));
    }
  }
  in.keep(actor.lanes);
  return in;
}

// The first to execute theirs find the others' registers as they were.
void Taint::meet(const Actor& actor, std::uint32_t all) {
  std::vector<Met>& met = warp(*actor.warp).met;
  if (std::any_of(met.begin(), met.end(), [&](const Met& m) { return (m.left & actor.lanes) != 0; })) return;
  const Warp& w = *actor.warp;
  Mask in = given(actor);
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    const Group& g = w.groups[i];
    if ((g.mask & all & ~actor.lanes) != 0) in.add(given({&w, w.code + g.pc, g.mask, actor.position}));
  }
  met.push_back({all, all, in});
}

// The actor's part of what lanes at several instructions give each other.
void Taint::take(const Actor& actor, Mask& in) {
  std::vector<Met>& all = warp(*actor.warp).met;
  const auto met =
      std::find_if(all.begin(), all.end(), [&](const Met& m) { return (m.left & actor.lanes) != 0; });
  in = met->given;
  if (in.lanes() != 0 && rule(pc_of(actor)) == Rule::kWarpWide)
    in = said_to_all(program_->effects[pc_of(actor)], in, [&](std::uint32_t) { return met->all; });
  met->left &= ~actor.lanes;
  if (met->left == 0) all.erase(met);
}

void Taint::compute(const Actor& actor, std::uint32_t group) {
  const Warp& w = *actor.warp;
  const std::uint32_t pc = pc_of(actor);
  const auto [first, last] = mentions(pc);
  Mask in = given(actor), guard;
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition && m->field == kGuard) guard.add(of(w, *m));
  }
  if (!known(w).met.empty()) [[unlikely]]
    take(actor, in);
  else if (in.lanes() != 0 && rule(pc) == Rule::kWarpWide)
    in = said_to_all(program_->effects[pc], in, [&](std::uint32_t lanes) { return sets_with(actor, lanes); });
  if (rule(pc) == Rule::kShuffle) shuffle(actor, in);
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition) continue;
    const bool second = rule(pc) == Rule::kLogic && m->field == static_cast<std::uint16_t>(Field::kTarget);
    assign(w, *m, actor.lanes, second ? logic_[1] : in);
    // Whether these lanes have the old or the new value is arbitrary.
    const std::uint32_t undecided = guard.lanes() & group;
    if (undecided != 0) assign(w, *m, undecided, Mask::all(undecided, guard.origin));
  }
}

// selp: sources in a and b, the predicate in c.
void Taint::select(const Actor& actor, std::uint32_t group) {
  const Warp& w = *actor.warp;
  const auto [first, last] = mentions(pc_of(actor));
  Mask a, b;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) continue;
    const Mask mask = of(w, *m);
    if (m->predicate && mask.lanes() != 0) return compute(actor, group);
    if (m->field == static_cast<std::uint16_t>(Field::kA)) a = mask;
    if (m->field == static_cast<std::uint16_t>(Field::kB)) b = mask;
  }
  const std::uint32_t takes_a = predicate_lanes(w, actor.inst->c);
  a.keep(takes_a);
  b.keep(~takes_a);
  Mask chosen = a;
  chosen.add(b);
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) assign(w, *m, actor.lanes, chosen);
  }
}

// mov: {a, b} = c, c = {a, b} or a = b, with two or four registers in a vector. They are in Inst::extra, the
// lowest first.
void Taint::pack(const Actor& actor) {
  const Warp& w = *actor.warp;
  const auto [first, last] = mentions(pc_of(actor));
  constexpr auto kFirst = static_cast<std::uint16_t>(Field::kExtra);
  const auto count =
      actor.inst->extra == nullptr ? 1u : static_cast<unsigned>(actor.inst->extra->refs.size());
  // The quarter of the whole register that has quarter `part` of an element.
  const auto place = [&](const Mention& m, unsigned part) {
    return m.field < kFirst ? part : (Mask::kParts * (m.field - kFirst) + part) / count;
  };
  Mask in;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition || m->field == kGuard) continue;
    const Mask mask = of(w, *m);
    if (mask.lanes() == 0) continue;
    in.origin = mask.origin;
    for (unsigned part = 0; part < Mask::kParts; ++part) in.part[place(*m, part)] |= mask.part[part];
  }
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition) continue;
    Mask out{{}, in.origin};
    for (unsigned part = 0; part < Mask::kParts; ++part) out.part[part] = in.part[place(*m, part)];
    assign(w, *m, actor.lanes, out);
  }
}

void Taint::look_at_shuffle(const Warp& w, const Inst* i) {
  const std::uint32_t *const step = lanes32(w, i->b), *const control = lanes32(w, i->c);
  // The mode is a constant in each of these loops, so that compilers make vectors of them.
  const auto look = [&](auto mode) {
    for (int lane = 0; lane < 32; ++lane)
      sources_[lane] =
          static_cast<std::uint32_t>(shuffle_source(mode(), lane, step[lane], control[lane]).lane);
  };
  switch (static_cast<Shuffle>(i->imm)) {
    case Shuffle::kUp:
      look([] { return Shuffle::kUp; });
      break;
    case Shuffle::kDown:
      look([] { return Shuffle::kDown; });
      break;
    case Shuffle::kBfly:
      look([] { return Shuffle::kBfly; });
      break;
    case Shuffle::kIdx:
      look([] { return Shuffle::kIdx; });
  }
  std::copy_n(lanes32(w, i->extra->refs[0]), 32, members_);
}

bool Taint::found_absent(const Actor& actor, std::uint32_t all) {
  const std::uint32_t members = members_[first_lane(actor.lanes)];
  std::uint32_t there = 0, alike = 0;
  for (int lane = 0; lane < 32; ++lane) {
    there |= (all >> sources_[lane] & 1u) << lane;
    alike |= (members_[lane] == members ? 1u : 0u) << lane;
  }
  if ((actor.lanes & ~alike) != 0) {
    for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
      const int lane = first_lane(rest);
      const std::uint32_t from = sources_[lane];
      if ((actor.lanes >> from & 1u) != 0 && members_[from] != members_[lane]) there &= ~(1u << lane);
    }
  }
  absent_ = actor.lanes & ~there;
  return absent_ != 0;
}

std::uint32_t Taint::shuffled(const Actor& actor, std::uint32_t source) const {
  std::uint32_t result = 0;
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    result |= (source >> sources_[lane] & 1u) << lane;
  }
  return result;
}

// "Results are undefined for a thread that sources a register from an inactive thread or a thread that is not
// in membermask" (PTX ISA).
void Taint::shuffle(const Actor& actor, Mask& in) {
  if (in.lanes() != 0) {
    for (std::uint32_t& part : in.part) part = shuffled(actor, part);
  }
  if (absent_ == 0) return;
  Actor takers = actor;
  takers.lanes = std::exchange(absent_, 0);
  in.add(Mask::all(takers.lanes, loaded(takers, "", 0, 0)));
}

// Accumulators that the instruction does not add to need no value.
void Taint::wgmma(const Actor& actor) {
  const Warp& w = *actor.warp;
  const auto [first, last] = mentions(pc_of(actor));
  const Extra& extra = *actor.inst->extra;
  const auto& operands = payload<WgmmaOperands>(actor.inst);
  const unsigned accumulators = operands.accumulators, a_registers = operands.a_registers;
  const bool adds = (predicate_lanes(w, extra.refs[operands.scale_d]) & actor.lanes) != 0;
  const auto extra_field = static_cast<std::uint16_t>(Field::kExtra);
  Mask in;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition || m->field < extra_field) continue;
    const auto index = static_cast<std::uint16_t>(m->field - extra_field);
    if (index < accumulators) continue;
    if (index < accumulators + a_registers) {
      if (const Mask mask = of(w, *m); mask.lanes() != 0) in = Mask::all(0xffffffffu, mask.origin);
    } else {
      decides(actor, *m, actor.lanes, "is an operand of an asynchronous operation");
    }
  }
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition) continue;
    if (in.lanes() != 0 || !adds) assign(w, *m, 0xffffffffu, in);
  }
}

}  // namespace sglab::emu
