// NaN in products of warpgroups: their accumulators are in registers that may not be read before the wait.

#include <algorithm>
#include <bit>
#include <cstring>

#include "machine/async/operations.hpp"
#include "machine/async/warpgroup.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/tensor/wgmma.hpp"
#include "observe/record/nans.hpp"

namespace sglab::emu {

// Registers of sums in flight hold a pattern that is a NaN, and nothing else, in all lanes.
void NanRecorder::pass_over_sums(const Warp& w, const std::vector<Watched>& watched) {
  chained_ = false;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if (watched[i].written || sources_[i] != lanes_ || watched[i].stride != sizeof(std::uint32_t)) continue;
    std::uint32_t lanes[32];
    std::memcpy(lanes, w.bank[0] + watched[i].place, sizeof lanes);
    if (!std::all_of(std::begin(lanes), std::end(lanes), [](std::uint32_t bits) { return bits == kPoison; }))
      continue;
    chained_ = true;
    sources_[i] = 0;
  }
}

// At the issue of each of the four warps: registers of A, and accumulators that are no sums in flight.
void NanRecorder::keep_sources(const Warp& w, const std::vector<Watched>& watched) {
  const auto found = issues_.find(last_issued_);
  if (found == issues_.end()) return;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if (!watched[i].written && sources_[i] != 0)
      found->second.sources.push_back({0, watched[i].reg, sources_[i], false, w.index});
  }
  found->second.chained = chained_;
}

// The sums as four warps' registers will hold them; what is NaN among A, B and the sums before is what it
// read.
void NanRecorder::keep_product(const Cluster& cluster, const AsyncOperation& operation, const Wgmma& wgmma) {
  const Warp& w = cluster.warps[operation.issuer.warp];
  const auto pc = static_cast<std::uint32_t>(operation.issuer.inst - program_.code.data());
  const auto cta = static_cast<std::uint32_t>(linear_index(*w.cta));
  const std::uint32_t first = w.index & ~3u;
  std::vector<const Watched*> sums;
  for (const Watched& one : watched_[pc])
    if (one.written) sums.push_back(&one);
  std::sort(sums.begin(), sums.end(), [](auto* a, auto* b) { return a->number < b->number; });
  const auto node = issues_.extract({cluster.index, operation.issuer.operation});
  const Issue issue = node.empty() ? Issue{} : std::move(node.mapped());
  const std::uint32_t event = add({issue.position, pc, cta, w.index, 0, 0, NanLog::kOperation});
  NanLog::Event& made = log_.events[event];
  const Footprint footprint = footprint_of(w.cta->rank, wgmma);
  made.in = scan(cluster, event, footprint.reads, wgmma.a_type, false);
  if (made.in == 0 && wgmma.b_type != wgmma.a_type)
    made.in = scan(cluster, event, footprint.reads, wgmma.b_type, false);
  const auto read = [&](NanLog::Operand operand) {
    operand.event = event;
    operand.written = false;
    made.in += static_cast<std::uint32_t>(std::popcount(operand.lanes));
    log_.operands.push_back(operand);
  };
  std::vector<NanLog::Operand>& left = left_[{cta, first, sums.empty() ? 0 : sums.front()->reg}];
  if (issue.chained && wgmma.scale_d) std::for_each(left.begin(), left.end(), read);
  std::for_each(issue.sources.begin(), issue.sources.end(), read);
  left.clear();
  const std::size_t count =
      wgmma.sums == nullptr || wgmma.d_type == ElementType::kS32
          ? 0
          : static_cast<std::size_t>(WgmmaAccumulators::registers(wgmma.d_type, wgmma.n));
  std::vector<std::uint32_t> values(32 * count);
  for (std::uint32_t warp = 0; warp < 4 && count == sums.size(); ++warp) {
    if (count != 0) wgmma.sums->store_warp(static_cast<int>(warp), values.data());
    for (std::size_t r = 0; r < count; ++r) {
      std::uint32_t lanes = 0;
      for (std::size_t lane = 0; lane < 32; ++lane)
        lanes |= static_cast<std::uint32_t>(is_nan(sums[r]->kind, values[32 * r + lane], infinite_)) << lane;
      if (lanes == 0) continue;
      made.out += static_cast<std::uint32_t>(std::popcount(lanes));
      left.push_back({event, sums[r]->reg, lanes, true, first + warp});
    }
  }
  log_.operands.insert(log_.operands.end(), left.begin(), left.end());
  if (made.in == 0 && made.out == 0) log_.events.pop_back();
}

}  // namespace sglab::emu
