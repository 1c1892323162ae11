#include <algorithm>

#include "machine/memory/access.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_map_access.hpp"
#include "machine/ops/wmma_operands.hpp"
#include "machine/tensor/tmem_transfer.hpp"
#include "observe/record/accesses.hpp"
#include "observe/sanitize/memory.hpp"
#include "observe/sanitize/sanitizer.hpp"

// What an instruction is about to do: its operands, read before it is executed.
namespace sglab::emu {

void Sanitizer::look(const Warp& w, const Inst* inst, const Effects& m, std::uint32_t lanes) {
  switch (m.act) {
    case Act::kAccess:
    case Act::kMatrixRows:
    case Act::kMbarrierWait:
    case Act::kReplaceMap:
      return lane_addresses(w, inst, before_.address);
    case Act::kMatrixTile:
      lane_addresses(w, inst, before_.address);
      before_.second[0] = tile_stride(w, inst, payload<MoveOperands>(inst));
      return;
    case Act::kClear:
      lane_addresses(w, inst, before_.address);
      std::copy_n(lanes64(w, inst->b), 32, before_.second);
      return;
    case Act::kNamedArrive:
    case Act::kNamedWait:
    case Act::kClusterArrive:
    case Act::kClusterWait:
      if (lanes != 0) look_at_barrier(w, inst);
      return;
    case Act::kTmemAlloc:
      lane_addresses(w, inst, before_.address);
      return look_at_tmem(w, inst, m, lanes);
    case Act::kTmemRelinquish:
      before_.tmem = {w.cta->rank, 0, 0, 0, 0};
      return;
    case Act::kTmemDealloc:
    case Act::kTmemLoad:
    case Act::kTmemStore:
      return look_at_tmem(w, inst, m, lanes);
    case Act::kCopyMap:
      addresses_of(w, extra_address(inst, payload<MapCopyOperands>(inst).target), before_.address);
      return addresses_of(w, extra_address(inst, payload<MapCopyOperands>(inst).source), before_.second);
    case Act::kIssueByMap:
      for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
        before_.address[first_lane(rest)] =
            address_of(w, extra_address(inst, *inst->extra->map), first_lane(rest));
      return;
    case Act::kWarpSync:
    case Act::kWarpExchange:
      if (const Meeting* const meeting = w.meeting_of(lanes)) before_.meeting = meeting->all;
      if (memory_ != nullptr && m.taint == TaintRule::kShuffle) memory_->look_at_shuffle(w, inst, lanes);
      if (memory_ != nullptr && m.taint == TaintRule::kWarpWide) memory_->look_at_members(w, inst);
      return;
    case Act::kFence:
      if (m.reads) lane_addresses(w, inst, before_.address);
      return;
    case Act::kExit:
      before_.live = w.live;
      return;
    default:
      if (memory_ != nullptr && m.taint == TaintRule::kLogic) memory_->look_at_logic(w, inst);
      return;
  }
}

void Sanitizer::look_at_barrier(const Warp& w, const Inst* inst) {
  const Effects& m = program_->effects[static_cast<std::size_t>(inst - w.code)];
  if (m.act != Act::kNamedArrive && m.act != Act::kNamedWait) {
    before_.arriving = m.act == Act::kClusterArrive;
    before_.number = kClusterBarrierNumber;
    before_.threads = 0;
    before_.phase = before_.arriving ? w.cluster->barrier.phase : w.cluster_ticket;
    return;
  }
  const Group& g = w.groups[w.group];
  before_.arriving = !g.arrived;
  if (g.arrived) {
    before_.number = static_cast<std::uint32_t>(g.key);
    before_.phase = g.ticket;
    return;
  }
  const int lane = first_lane(active_lanes(w, inst));
  before_.number = lanes32(w, inst->a)[lane];
  before_.threads = (inst->imm & 1) != 0 ? 0 : lanes32(w, inst->b)[lane];
  before_.phase = before_.number < w.cta->barriers.size() ? w.cta->barriers[before_.number].phase : 0;
}

void Sanitizer::look_at_tmem(const Warp& w, const Inst* inst, const Effects& m, std::uint32_t lanes) {
  if (lanes == 0) return;
  const int lane = first_lane(lanes);
  TmemRange& range = before_.tmem;
  range.rank = w.cta->rank;
  if (m.act == Act::kTmemAlloc || m.act == Act::kTmemDealloc) {
    range = {w.cta->rank, 0, TensorMemory::kLanes, 0, lanes32(w, inst->b)[lane]};
    if (m.act == Act::kTmemDealloc) range.column = TmemAddress::decode(lanes32(w, inst->a)[lane]).column;
    return;
  }
  const auto& form = payload<LdStForm>(inst);
  const auto named = static_cast<std::uint32_t>(address_of(w, main_address(inst), lane));
  const TmemAddress at = in_own_quarter(form, TmemAddress::decode(named), w.index);
  range = {w.cta->rank, at.lane, static_cast<std::uint32_t>(ld_st_lanes(form)), at.column,
           static_cast<std::uint32_t>(ld_st_columns(form))};
}

}  // namespace sglab::emu
