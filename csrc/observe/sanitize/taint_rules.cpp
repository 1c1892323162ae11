#include <algorithm>
#include <optional>
#include <utility>

#include "observe/sanitize/taint.hpp"

// How taint follows an instruction, by its name.
namespace sglab::emu {
namespace {

using Rule = Taint::Rule;

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

}  // namespace

// Only needed once something is tainted.
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

}  // namespace sglab::emu
