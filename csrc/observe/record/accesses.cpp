#include "observe/record/accesses.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "isa/aperture.hpp"
#include "machine/memory/access.hpp"

namespace sglab::emu {
namespace {

std::vector<std::string_view> split(std::string_view opcode) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= opcode.size();) {
    const std::size_t dot = std::min(opcode.find('.', at), opcode.size());
    parts.push_back(opcode.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

Space space_of(const std::vector<std::string_view>& parts, InstClass kind) {
  if (kind == InstClass::kLocal || kind == InstClass::kParam) return Space::kReg;
  for (const std::string_view part : parts) {
    if (part == "global") return Space::kGlobal;
    if (part.starts_with("shared")) return Space::kShared;
  }
  return kind == InstClass::kShared ? Space::kShared : Space::kGeneric;
}

AccessForm form_of(std::string_view opcode, InstClass kind) {
  const std::vector<std::string_view> parts = split(opcode);
  const std::string_view name = parts[0];
  AccessForm form;
  form.reads = name == "ld" || name == "ldu" || name == "atom";
  form.writes = name == "st" || name == "atom" || name == "red";
  if (!form.reads && !form.writes) return {};
  if (parts.size() > 1 && parts[1] == "async") return {};
  form.reads = form.reads || name == "red";
  form.space = space_of(parts, kind);
  unsigned bytes = type_bytes(type_from_name(parts.back()));
  for (const std::string_view part : parts) {
    if (part.size() == 2 && part[0] == 'v') bytes *= static_cast<unsigned>(part[1] - '0');
  }
  form.bytes = static_cast<std::uint8_t>(bytes);
  return form;
}

}  // namespace

AccessForm access_form(const Program& program, std::uint32_t pc) {
  const std::string_view opcode = opcode_of(program, pc);
  return opcode.empty() ? AccessForm{} : form_of(opcode, program.code[pc].kind);
}

std::vector<AccessForm> access_forms(const Program& program) {
  std::vector<AccessForm> forms(program.code.size());
  std::vector<std::optional<AccessForm>> known(program.image->module().opcodes.size());  // by mnemonic
  for (std::uint32_t pc = 0; pc < forms.size(); ++pc) {
    const std::uint32_t opcode = program.places[pc].opcode;
    if (opcode == kNoIndex) continue;
    if (!known[opcode]) known[opcode] = access_form(program, pc);
    forms[pc] = *known[opcode];
  }
  return forms;
}

std::uint32_t active_lanes(const Warp& w, const Inst* i) {
  if (i->guard == kNoGuard) return w.group_mask;
  return w.group_mask & (w.predicates[i->guard >> 1] ^ (0u - (i->guard & 1u)));
}

namespace {

// Lanes whose addresses an ldmatrix or stmatrix uses.
std::uint32_t row_lanes(std::string_view opcode) {
  const unsigned matrices = opcode.find(".x4") != opcode.npos ? 4 : opcode.find(".x2") != opcode.npos ? 2 : 1;
  const unsigned rows = opcode.find("m16n") != opcode.npos ? 16 * matrices : 8 * matrices;
  return rows >= 32 ? 0xffffffffu : (1u << rows) - 1;
}

}  // namespace

LaneAccess shared_access(const Warp& w, const Inst* i, AccessForm& form) {
  const std::string_view opcode = opcode_of(*w.program, static_cast<std::uint32_t>(i - w.code));
  const bool loads = opcode.starts_with("ldmatrix"), stores = opcode.starts_with("stmatrix");
  if (!loads && !stores) {
    if (form.space == Space::kReg) return {};
    return lane_access(w, i, form, Space::kShared);
  }
  form = {Space::kShared, 16, loads, stores};
  LaneAccess access = lane_access(w, i, form, Space::kShared);
  access.lanes = row_lanes(opcode);
  return access;
}

LaneAccess lane_access(const Warp& w, const Inst* i, const AccessForm& form, Space space) {
  LaneAccess access;
  lane_addresses(w, i, access.address);
  access.lanes = active_lanes(w, i);
  if (form.space == space) {
    return access;
  }
  if (form.space != Space::kGeneric) {
    access.lanes = 0;
    return access;
  }
  const std::uint64_t aperture = space == Space::kShared ? kSharedAperture : 0;
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    if ((access.address[l] & kApertureMask) != aperture) access.lanes &= ~(1u << l);
    access.address[l] &= ~kApertureMask;
  }
  return access;
}

}  // namespace sglab::emu
