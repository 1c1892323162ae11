#include <algorithm>
#include <bit>

#include "machine/async/engine.hpp"
#include "machine/async/footprint.hpp"
#include "machine/async/warpgroup.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/engine/warning.hpp"

// What a plain launch can see at no cost of operations whose completion was not waited for: they take
// effect as late as allowed here, so whoever read early read what was there before. Sanitizers see more.
namespace sglab::emu {
namespace {

bool overlap(const TmemRange& a, TmemAddress at, const LdStForm& form) {
  const auto lanes = static_cast<std::uint32_t>(ld_st_lanes(form)),
             columns = static_cast<std::uint32_t>(ld_st_columns(form));
  return at.lane < a.lane + a.lanes && a.lane < at.lane + lanes && at.column < a.column + a.columns &&
         a.column < at.column + columns;
}

std::uint32_t lanes_of(const Issuer& issuer) {
  return issuer.lane < 0 ? 0 : 1u << issuer.lane;
}

}  // namespace

void AsyncEngine::warn_of_stores(const Warp& reader, const Inst* inst, std::uint32_t lanes,
                                 const TmemRange& range) const {
  if (!cluster_.launch->observers.none()) return;
  const Cta& cta = cluster_.ctas[range.rank];
  for (std::uint32_t slot = cta.first_warp; slot < cta.first_warp + cta.warp_count; ++slot) {
    for (const PendingStore& store : tmem_stores_[slot]) {
      if (!overlap(range, store.address, payload<LdStForm>(store.inst))) continue;
      const auto pc = static_cast<std::size_t>(store.inst - reader.code);
      warn(reader, inst, lanes, "tmem_store_unfinished",
           "it reads tensor memory that warp " + std::to_string(cluster_.warps[slot].index) +
               " stores at PTX line " + std::to_string(cluster_.program->places[pc].line) +
               " without tcgen05.wait::st: it read what was there before, and a GPU may have it either way");
      return;
    }
  }
}

void AsyncEngine::warn_of_stores(const TensorOperation& op) const {
  if (!cluster_.launch->observers.none()) return;
  bool any = false;
  for (const std::vector<PendingStore>& stores : tmem_stores_) any = any || !stores.empty();
  if (!any) return;
  const Warp& issuer = cluster_.warps[op.issuer.warp];
  for (const TmemRange& range : footprint_of(cluster_, op, 0).tmem_reads)
    warn_of_stores(issuer, op.issuer.inst, lanes_of(op.issuer), range);
}

void AsyncEngine::warn_of_early_use(const Warp& warp, const Inst* inst) const {
  const std::vector<EarlyUse>& uses = warp.launch->program->early_uses;
  if (uses.empty() || !cluster_.launch->observers.none()) return;
  const auto pc = static_cast<std::uint32_t>(inst - warp.code);
  const auto use =
      std::lower_bound(uses.begin(), uses.end(), pc,
                       [](const EarlyUse& one, std::uint32_t wanted) { return one.filler < wanted; });
  if (use == uses.end() || use->filler != pc) return;
  const bool loads = warp.launch->program->effects[pc].act == Act::kTmemLoad;
  warn(warp, inst, warp.mask, loads ? "tmem_load_read_early" : "wgmma_read_early",
       "a register that it fills is read at PTX line " +
           std::to_string(cluster_.program->places[use->reader].line) +
           (loads ? " without tcgen05.wait::ld between: what is read there is not defined"
                  : " without wgmma.wait_group between: what is read there is not defined"));
}

void AsyncEngine::warn_of_unfinished() {
  if (!cluster_.launch->observers.none()) return;
  const auto unfinished = [&](const Issuer& issuer, std::uint32_t lanes, const char* what, const char* wait) {
    warn(cluster_.warps[issuer.warp], issuer.inst, lanes, "never_waited_for",
         std::string(what) + " was in flight when its CTA ended: " + wait +
             ", so whoever used what it brings read what was there before");
  };
  for (const BulkOperation& op : bulk_) {
    unfinished(op.issuer, lanes_of(op.issuer), "the copy", "no wait for the mbarrier that it signals");
  }
  for (const WarpQueue& own : warps_) {
    for (const SmallCopy& copy : own.small.records()) {
      if (copy.mask != 0 && copy.bytes != 0)
        unfinished(copy.issuer, copy.mask, "the copy", "no cp.async.wait_group or mbarrier wait covered it");
    }
  }
  for (const Warp& warp : cluster_.warps) {
    const auto& group = warpgroups_[warp.slot - warp.index % 4];
    if (group == nullptr) continue;
    if (const Issuer* const issuer = group->unfinished(warp))
      unfinished({warp.slot, -1, issuer->inst}, 0xffffffffu, "the product", "no wgmma.wait_group covered it");
  }
}

}  // namespace sglab::emu
