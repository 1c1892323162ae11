#include "observe/sanitize/grids.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "machine/engine/fault.hpp"
#include "machine/ops/operands.hpp"

namespace sglab::emu {
namespace {

// Calls f(page, offset, bytes) for each page that the range lies in.
template <std::uint64_t kPage, class F>
void for_each_page(std::uint64_t address, std::uint64_t bytes, F f) {
  while (bytes != 0) {
    const std::uint64_t offset = address % kPage, some = std::min(bytes, kPage - offset);
    f(address / kPage, offset, some);
    address += some;
    bytes -= some;
  }
}

// Calls f(address, bytes) for each stretch of the lanes' bytes.
template <class F>
void for_each_stretch(const Access& access, F f) {
  std::uint64_t begin = 0, end = 0;
  for (std::uint32_t rest = access.lanes; rest != 0;) {
    const std::uint64_t at = access.address[first_lane(rest)];
    const bool again = at >= begin && at < end;
    const std::uint32_t count = again ? 1 : access.row(rest), bytes = count * access.bytes;
    rest = Access::after(rest, count);
    if (again && at + bytes <= end) continue;  // what another lane has touched
    if (at != end) {
      if (end != begin) f(begin, end - begin);
      begin = at;
    }
    end = at + bytes;
  }
  if (end != begin) f(begin, end - begin);
}

}  // namespace

void TouchedBytes::add(std::uint64_t address, std::uint64_t bytes) {
  if (address >= begin_ && bytes <= end_ - begin_ && address - begin_ <= end_ - begin_ - bytes) return;
  if (address == end_) {
    end_ += bytes;
  } else {
    begin_ = address;
    end_ = address + bytes;
  }
  for_each_page<kPage>(address, bytes, [&](std::uint64_t page, std::uint64_t offset, std::uint64_t some) {
    if (page != last_) {
      last_ = page;
      flags_ = &pages_.try_emplace(page, kPage).first->second;
    }
    flags_->set(offset, some);
  });
}

bool TouchedBytes::any(std::uint64_t address, std::uint64_t bytes) const {
  bool found = false;
  for_each_page<kPage>(address, bytes, [&](std::uint64_t page, std::uint64_t offset, std::uint64_t some) {
    const auto known = pages_.find(page);
    found |= known != pages_.end() && known->second.any(offset, some);
  });
  return found;
}

GridDependency::GridDependency(Findings& findings, std::shared_ptr<GridHistory> history, bool overlaps)
    : Detector(findings), history_(std::move(history)) {
  if (overlaps) before_ = history_->latest;
}

GridDependency::Waits& GridDependency::of(const Actor& actor) {
  const std::uint64_t index = actor.warp->cluster->index;
  if (waits_ == nullptr || index != last_) {
    last_ = index;
    waits_ = &clusters_[index];
  }
  return *waits_;
}

void GridDependency::launched(const Launch&) {
  clusters_.clear();
  waits_ = nullptr;
  mine_ = std::make_shared<GridMemory>();
  history_->latest = mine_;
}

void GridDependency::cluster_started(const Cluster& cluster) {
  clusters_[cluster.index] = {false, std::vector<bool>(cluster.warps.size()), {}};
}

void GridDependency::cluster_finished(const Cluster& cluster) {
  clusters_.erase(cluster.index);
  waits_ = nullptr;
}

void GridDependency::fenced(const Actor& actor, const Fence& fence) {
  if (fence.kind != Fence::Kind::kGridDependency) return;
  Waits& waits = of(actor);
  waits.any = waits.warps[actor.warp->slot] = true;
}

void GridDependency::met(const Actor& actor) {
  Waits& waits = of(actor);
  if (waits.any) waits.warps[actor.warp->slot] = true;
}

void GridDependency::passed(const Actor& actor, const BarrierUse&) {
  met(actor);
}

void GridDependency::mbarrier_passed(const Actor& actor, const MbarrierWait&) {
  met(actor);
}

void GridDependency::accessed(const Actor& actor, const Access& access) {
  if (access.space != Space::kGlobal) return;
  const bool early = before_ != nullptr && !of(actor).warps[actor.warp->slot];
  for_each_stretch(access, [&](std::uint64_t address, std::uint64_t bytes) {
    touch(actor, address, bytes, access.reads, access.writes, early);
  });
}

void GridDependency::map_used(const Actor& actor, const Access& access) {
  accessed(actor, access);
}

void GridDependency::issued(const Actor& actor, const AsyncOp& op) {
  if (before_ == nullptr) return;
  Waits& waits = of(actor);
  if (!waits.warps[actor.warp->slot]) waits.early.insert(op.id);
}

void GridDependency::performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) {
  const bool early = before_ != nullptr && !of(actor).early.empty() && of(actor).early.contains(op.id);
  for (const auto* ranges : {&footprint.reads, &footprint.writes}) {
    const bool writes = ranges == &footprint.writes;
    for (const Range& range : *ranges) {
      if (range.space == Space::kGlobal) touch(actor, range.address, range.bytes, !writes, writes, early);
    }
  }
}

void GridDependency::touch(const Actor& actor, std::uint64_t address, std::uint64_t bytes, bool reads,
                           bool writes, bool early) {
  if (early) {
    const bool written = before_->writes.any(address, bytes);
    if (written || (writes && before_->reads.any(address, bytes))) {
      Finding finding;
      finding.detector = "races";
      finding.kind = "missing_griddepcontrol_wait";
      finding.message = std::string(writes ? "writes" : "reads") + " " + std::to_string(bytes) +
                        " bytes of global memory at " + hex(address) + " that the launch before it " +
                        (written ? "writes" : "reads") +
                        ", and may still do: this launch overlaps it, and no griddepcontrol.wait comes first";
      finding.at = party(actor);
      finding.space = "global";
      finding.address = address;
      finding.bytes = bytes;
      findings.report(std::move(finding));
    }
  }
  if (reads) mine_->reads.add(address, bytes);
  if (writes) mine_->writes.add(address, bytes);
}

}  // namespace sglab::emu
