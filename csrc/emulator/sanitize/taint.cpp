#include "emulator/sanitize/taint.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "emulator/ops/operands.hpp"
#include "emulator/program/builder.hpp"

namespace sglab::emu {
namespace {

using Rule = Taint::Rule;

constexpr std::uint32_t kPredicateKey = 0x40000000u;
constexpr auto kGuard = static_cast<std::uint16_t>(Field::kGuard);

std::uint32_t key_of(const Mention& m) {
  return m.place | (m.predicate ? kPredicateKey : 0);
}

bool is_integer(std::string_view type) {
  const Type named = type_from_name(type);
  return Type::kU8 <= named && named <= Type::kS64;
}

std::string_view last_part(std::string_view opcode) {
  return opcode.substr(opcode.rfind('.') + 1);
}

Rule rule_of_conversion(std::string_view opcode) {
  if (opcode.ends_with("x2.f32")) return Rule::kConvertPair;
  const bool cuts = is_integer(last_part(opcode)) && opcode.find(".sat") == std::string_view::npos;
  return cuts ? Rule::kConvert : Rule::kCompute;
}

bool carries(std::string_view opcode) {
  for (const std::string_view sum : {"add.", "sub.", "neg.", "mul.lo.", "mad.lo."}) {
    if (opcode.starts_with(sum) && is_integer(opcode.substr(sum.size()))) return true;
  }
  return false;
}

Rule rule_of(std::string_view opcode) {
  constexpr std::pair<std::string_view, Rule> kPrefixes[] = {
      {"bra", Rule::kDecide},           {"brx", Rule::kDecide},
      {"exit", Rule::kDecide},          {"ret", Rule::kDecide},
      {"call", Rule::kDecide},          {"trap", Rule::kDecide},
      {"selp", Rule::kSelect},          {"shfl", Rule::kShuffle},
      {"vote", Rule::kWarpWide},        {"match", Rule::kWarpWide},
      {"redux", Rule::kWarpWide},       {"elect", Rule::kControl},
      {"mma", Rule::kWarpWide},         {"movmatrix", Rule::kWarpWide},
      {"wgmma.mma", Rule::kWgmma},      {"ldmatrix", Rule::kMatrixRows},
      {"stmatrix", Rule::kMatrixRows},  {"ld", Rule::kAccess},
      {"st.async", Rule::kControl},     {"st", Rule::kAccess},
      {"atom", Rule::kAccess},          {"red.async", Rule::kControl},
      {"redux", Rule::kWarpWide},       {"red", Rule::kAccess},
      {"tcgen05.ld", Rule::kTmemLoad},  {"tcgen05.st", Rule::kTmemStore},
      {"tcgen05", Rule::kControl},      {"mbarrier", Rule::kControl},
      {"bar", Rule::kControl},          {"cp.async.bulk.prefetch", Rule::kNothing},
      {"cp.", Rule::kControl},          {"tensormap", Rule::kControl},
      {"prefetch", Rule::kNothing},     {"nanosleep", Rule::kNothing},
      {"setmaxnreg", Rule::kNothing},   {"discard", Rule::kNothing},
      {"applypriority", Rule::kNothing}};
  for (const auto& [prefix, rule] : kPrefixes) {
    if (opcode.starts_with(prefix)) return rule;
  }
  for (const std::string_view logic : {"and.pred", "or.", "xor.", "not.", "lop3."}) {
    if (opcode.starts_with(logic)) return Rule::kHalves;
  }
  constexpr std::pair<std::string_view, Rule> kMoves[] = {
      {"mov.", Rule::kPack}, {"and.", Rule::kAnd}, {"shl.", Rule::kShiftLeft}, {"shr.", Rule::kShiftRight}};
  for (const auto& [prefix, rule] : kMoves) {
    if (opcode.starts_with(prefix)) return rule;
  }
  if (opcode == "prmt.b32") return Rule::kPermute;
  if (opcode.starts_with("cvt.")) return rule_of_conversion(opcode);
  if (opcode.ends_with("x2")) return Rule::kHalves;
  return carries(opcode) ? Rule::kCarries : Rule::kCompute;
}

Taint::Treatment treatment_of(std::string_view opcode) {
  const std::string_view type = last_part(opcode);
  const std::string_view rest = opcode.substr(0, opcode.size() - std::min(opcode.size(), type.size() + 1));
  return {rule_of(opcode), type_from_name(last_part(rest)), type_from_name(type)};
}

std::uint32_t pc_of(const Actor& actor) {
  return static_cast<std::uint32_t>(actor.inst - actor.warp->code);
}

}  // namespace

void Taint::launched(const Program& program) {
  clusters_.clear();
  cached_ = nullptr;
  origins_.clear();
  if (program_ == &program) return;
  program_ = &program;
  treatments_.clear();
  register_bytes_.clear();
  find_unset();
}

void Taint::find_unset() {
  unset_.clear();
  mentions_unset_.assign(program_->code.size(), false);
  for (const Mention& m : program_->unset) unset_.insert(key_of(m));
  if (unset_.empty()) return;
  for (const Mention& m : program_->mentions) {
    if (unset_.contains(key_of(m))) mentions_unset_[m.inst] = true;
  }
}

// What is only needed once something is tainted.
void Taint::prepare() {
  const Program& program = *program_;
  const auto& opcodes = program.image->module().opcodes;
  std::vector<std::optional<Treatment>> known(opcodes.size());
  treatments_.assign(program.code.size(), {});
  for (std::uint32_t pc = 0; pc < treatments_.size(); ++pc) {
    const std::uint32_t opcode = program.places[pc].opcode;
    if (opcode == kNoIndex) continue;
    if (!known[opcode]) known[opcode] = treatment_of(opcodes[opcode]);
    treatments_[pc] = *known[opcode];
  }
  first_.assign(program.code.size() + 1, 0);
  for (const Mention& m : program.mentions) ++first_[m.inst + 1];
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) first_[pc + 1] += first_[pc];
}

std::string Taint::name_of(const Mention& mention) const {
  const ProgramFunction& kernel = program_->functions[0];
  const Function& function = program_->image->module().functions[kernel.source];
  for (std::uint32_t i = 0; i < function.registers.size(); ++i) {
    const bool predicate = letter_of(function.registers[i]) == 'p';
    if (predicate == mention.predicate && program_->registers[kernel.first_register + i] == mention.place &&
        program_->lifetimes[kernel.first_register + i].start == 0)
      return register_name(function, i);
  }
  return "a register";
}

void Taint::cluster_started(const Cluster& cluster) {
  cached_ = nullptr;
  clusters_[cluster.index].assign(cluster.warps.size(), {});
}

Taint::Registers& Taint::warp(const Warp& w) {
  Registers& registers = known(w);
  if (registers.begun) return registers;
  registers.begun = true;
  const auto code = static_cast<std::uint32_t>(program_->code.size());
  for (std::uint32_t i = 0; i < program_->unset.size(); ++i)
    registers.tainted[key_of(program_->unset[i])] = Mask::both(0xffffffffu, code + i);
  return registers;
}

Taint::Mask Taint::of(const Warp& w, const Mention& mention) {
  const auto& tainted = warp(w).tainted;
  const auto found = tainted.find(key_of(mention));
  return found == tainted.end() ? Mask{} : found->second;
}

void Taint::assign(const Warp& w, const Mention& destination, std::uint32_t lanes, Mask mask) {
  Registers& registers = warp(w);
  const std::uint32_t key = key_of(destination);
  const auto found = registers.tainted.find(key);
  mask.low &= lanes;
  mask.high &= lanes;
  if (found == registers.tainted.end()) {
    if (mask.lanes() == 0) return;
    registers.tainted[key] = mask;
    if (!unset_.contains(key)) ++registers.derived;
    return;
  }
  found->second.low &= ~lanes;
  found->second.high &= ~lanes;
  found->second.add(mask);
  if (found->second.lanes() != 0) return;
  registers.tainted.erase(found);
  if (!unset_.contains(key)) --registers.derived;
}

std::uint32_t Taint::loaded(const Actor& actor, const char* space, std::uint64_t address,
                            std::uint64_t bytes) {
  const std::uint32_t origin = pc_of(actor);
  origins_[origin] = {party(actor), space, address, bytes};
  return origin;
}

void Taint::decides(const Actor& actor, const Mention& source, std::uint32_t lanes, const char* how) {
  const Mask mask = of(*actor.warp, source);
  if ((mask.lanes() & lanes) == 0) return;
  assign(*actor.warp, source, 0xffffffffu, {});
  const auto code = static_cast<std::uint32_t>(program_->code.size());
  const Origin& origin = origins_[mask.origin];
  Finding finding;
  finding.detector = "memory";
  Actor some = actor;
  some.lanes = mask.lanes() & lanes;
  if (mask.origin >= code) {
    finding.kind = "uninitialised_register";
    finding.message = "register " + name_of(program_->unset[mask.origin - code]) +
                      " was never written, but its value " + how;
    finding.at = party(some);
  } else {
    finding.kind = "uninitialised_read";
    finding.message = std::to_string(origin.bytes) + " bytes of " + origin.space + " memory at " +
                      hex(origin.address) + " are read that hold nothing initialised, and the value " + how;
    finding.at = origin.at;
    finding.other = party(some);
    finding.other_did = "used the value";
    finding.space = origin.space;
    finding.address = origin.address;
    finding.bytes = origin.bytes;
  }
  findings_.report(std::move(finding));
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

void Taint::compute(const Actor& actor, std::uint32_t group) {
  const Warp& w = *actor.warp;
  const std::uint32_t pc = pc_of(actor);
  const auto [first, last] = mentions(pc);
  unsigned result_bytes = 1;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) result_bytes = bytes_of(*m);
  }
  Mask in, guard;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) continue;
    if (m->field == kGuard)
      guard.add(of(w, *m));
    else
      in.add(taken(actor, *m, result_bytes));
  }
  in.low &= actor.lanes;
  in.high &= actor.lanes;
  if (in.lanes() != 0 && rule(pc) == Rule::kWarpWide) in = Mask::both(actor.lanes, in.origin);
  if (in.lanes() != 0 && rule(pc) == Rule::kShuffle)
    in = {shuffled(actor, in.low), shuffled(actor, in.high), in.origin};
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition) continue;
    assign(w, *m, actor.lanes, in);
    // Whether these lanes have the old or the new value is a matter of chance.
    const std::uint32_t undecided = guard.lanes() & group;
    if (undecided != 0) assign(w, *m, undecided, Mask::both(undecided, guard.origin));
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
  Mask chosen{a.low & takes_a, a.high & takes_a, a.origin};
  chosen.add({b.low & ~takes_a, b.high & ~takes_a, b.origin});
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) assign(w, *m, actor.lanes, chosen);
  }
}

// mov: {a, b} = c, c = {a, b} or a = b. A vector's registers lie in Inst::extra, the lowest first.
void Taint::pack(const Actor& actor) {
  const Warp& w = *actor.warp;
  const auto [first, last] = mentions(pc_of(actor));
  constexpr auto kFirst = static_cast<std::uint16_t>(Field::kExtra);
  const std::size_t parts = actor.inst->extra == nullptr ? 0 : actor.inst->extra->refs.size();
  const auto is_upper = [&](const Mention& m) { return 2u * (m.field - kFirst) >= parts; };
  Mask in;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition || m->field == kGuard) continue;
    Mask mask = of(w, *m);
    if (m->field >= kFirst) (is_upper(*m) ? mask.low : mask.high) = 0;
    if (m->field >= kFirst) (is_upper(*m) ? mask.high : mask.low) = of(w, *m).lanes();
    in.add(mask);
  }
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition) continue;
    const std::uint32_t half = m->field >= kFirst && is_upper(*m) ? in.high : in.low;
    assign(w, *m, actor.lanes, m->field >= kFirst ? Mask::both(half, in.origin) : in);
  }
}

// As shfl finds its lanes; see ops/warp.cpp.
std::uint32_t Taint::shuffled(const Actor& actor, std::uint32_t source) const {
  const Warp& w = *actor.warp;
  const Inst* const i = actor.inst;
  const std::uint32_t *const step = lanes32(w, i->b), *const control = lanes32(w, i->c);
  std::uint32_t result = 0;
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    const int l = first_lane(rest);
    const int by = static_cast<int>(step[l] & 0x1f), clamp = static_cast<int>(control[l] & 0x1f);
    const int segment = static_cast<int>(control[l] >> 8 & 0x1f);
    const int most = (l & segment) | (clamp & ~segment), least = l & segment;
    const int from[] = {l - by, l + by, l ^ by, least | (by & ~segment)};
    int j = from[i->imm & 3];
    const bool valid = i->imm == 0 ? j >= most : j <= most;
    if (!valid) j = l;
    if ((source >> (j & 31) & 1u) != 0) result |= 1u << l;
  }
  return result;
}

// Accumulators that the instruction does not add to need no value.
void Taint::wgmma(const Actor& actor) {
  const Warp& w = *actor.warp;
  const auto [first, last] = mentions(pc_of(actor));
  const Extra& extra = *actor.inst->extra;
  const auto accumulators = static_cast<std::uint16_t>(extra.values[0]);
  const auto a_registers = static_cast<std::uint16_t>(extra.values[1]);
  const auto scale = static_cast<std::size_t>(extra.values[2]);
  const bool adds = (predicate_lanes(w, extra.refs[scale]) & actor.lanes) != 0;
  const auto extra_field = static_cast<std::uint16_t>(Field::kExtra);
  Mask in;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition || m->field < extra_field) continue;
    const auto index = static_cast<std::uint16_t>(m->field - extra_field);
    if (index < accumulators) continue;
    if (index < accumulators + a_registers) {
      if (const Mask mask = of(w, *m); mask.lanes() != 0) in = Mask::both(0xffffffffu, mask.origin);
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
