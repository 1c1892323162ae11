#include "observe/debug/stores.hpp"

#include <bit>

#include "machine/engine/cluster.hpp"

namespace sglab::emu {

StoreFollower::StoreFollower(const Program& program) : stores_(store_forms(program)) {}

void StoreFollower::attempting(const Warp& w, const Inst* inst) {
  AccessForm form = stores_[static_cast<std::size_t>(inst - w.code)];
  if (!form.writes || (form.space != Space::kShared && form.space != Space::kGeneric)) return;
  const LaneAccess access = shared_access(w, inst, form);
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1)
    w.cluster->mark_written(access.address[std::countr_zero(m)], form.bytes);
}

}  // namespace sglab::emu
