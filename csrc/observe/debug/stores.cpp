#include "observe/debug/stores.hpp"

#include <bit>

#include "machine/engine/cluster.hpp"

namespace sglab::emu {

StoreFollower::StoreFollower(const Program& program) : stores_(store_forms(program)) {}

void StoreFollower::attempting(const Warp& w, const Inst* inst) {
  const auto pc = static_cast<std::size_t>(inst - w.code);
  AccessForm form = stores_[pc];
  if (!form.writes || (form.space != Space::kShared && form.space != Space::kGeneric)) return;
  // A matrix's lanes address rows. That tcgen05.alloc stores its result is not among its accesses.
  const bool rows = w.program->effects[pc].act == Act::kMatrixRows;
  const LaneAccess access = rows ? shared_access(w, inst, form) : lane_access(w, inst, form, Space::kShared);
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1)
    w.cluster->mark_written(access.address[std::countr_zero(m)], form.bytes);
}

}  // namespace sglab::emu
