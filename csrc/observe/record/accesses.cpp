#include "observe/record/accesses.hpp"

#include <bit>

#include "isa/aperture.hpp"
#include "machine/memory/access.hpp"

namespace sglab::emu {

AccessForm access_form(const Effects& e) {
  if (e.act != Act::kAccess || e.space == Space::kLocal) return {};
  return {e.space, e.bytes, e.reads, e.writes, e.counts};
}

std::vector<AccessForm> access_forms(const Program& program) {
  std::vector<AccessForm> forms;
  forms.reserve(program.effects.size());
  for (const Effects& e : program.effects) forms.push_back(access_form(e));
  return forms;
}

std::vector<AccessForm> store_forms(const Program& program) {
  std::vector<AccessForm> forms = access_forms(program);
  for (std::size_t pc = 0; pc < forms.size(); ++pc) {
    const Effects& e = program.effects[pc];
    const bool shared = e.act == Act::kMatrixRows || e.act == Act::kTmemAlloc;
    if (shared && e.writes) forms[pc] = {e.space, e.bytes, false, true};
  }
  return forms;
}

std::uint32_t active_lanes(const Warp& w, const Inst* i) {
  if (i->guard == kNoGuard) return w.group_mask;
  return w.group_mask & (w.predicates[i->guard >> 1] ^ (0u - (i->guard & 1u)));
}

LaneAccess global_access(const Warp& w, const Inst* i, AccessForm& form) {
  form = access_form(w.program->effects[static_cast<std::size_t>(i - w.code)]);
  if (form.space == Space::kReg) return {};
  return lane_access(w, i, form, Space::kGlobal);
}

LaneAccess shared_access(const Warp& w, const Inst* i, AccessForm& form) {
  const Effects& e = w.program->effects[static_cast<std::size_t>(i - w.code)];
  if (e.act != Act::kMatrixRows) {
    form = access_form(e);
    if (form.space == Space::kReg) return {};
    return lane_access(w, i, form, Space::kShared);
  }
  form = {Space::kShared, e.bytes, e.reads, e.writes};
  LaneAccess access = lane_access(w, i, form, Space::kShared);
  access.lanes = e.rows >= 32 ? 0xffffffffu : (1u << e.rows) - 1;
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
