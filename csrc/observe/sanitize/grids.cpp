#include "observe/sanitize/grids.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "machine/engine/fault.hpp"
#include "machine/ops/operands.hpp"

namespace sglab::emu {
namespace {

constexpr std::size_t kMostSparePages = 4096;  // 24 MB

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

// The launch before may go on in a session: each has memory of its own.
std::shared_ptr<races::LaunchMemory> GridHistory::begin() {
  std::shared_ptr<races::LaunchMemory> memory(spare_->take().release(), [spare = spare_](auto* over) {
    spare->leave(std::unique_ptr<races::LaunchMemory>(over));
  });
  std::shared_ptr<const races::LaunchMemory> before = memory;  // is let go without the lock
  const std::lock_guard lock(mutex_);
  latest_.swap(before);
  return memory;
}

std::shared_ptr<const races::LaunchMemory> GridHistory::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

std::unique_ptr<races::LaunchMemory> GridHistory::Spare::take() {
  const std::lock_guard lock(mutex);
  return memory == nullptr ? std::make_unique<races::LaunchMemory>() : std::move(memory);
}

void GridHistory::Spare::leave(std::unique_ptr<races::LaunchMemory> over) {
  if (over->global.pages() > kMostSparePages) return;
  over->global.forget();
  const std::lock_guard lock(mutex);
  if (memory == nullptr) memory = std::move(over);
}

GridDependency::GridDependency(Findings& findings, std::shared_ptr<const races::LaunchMemory> before)
    : Detector(findings), before_(std::move(before)) {}

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
  if (access.space != Space::kGlobal || of(actor).warps[actor.warp->slot]) return;
  for_each_stretch(access, [&](std::uint64_t address, std::uint64_t bytes) {
    touch(actor, address, bytes, access.writes);
  });
}

void GridDependency::map_used(const Actor& actor, const Access& access) {
  accessed(actor, access);
}

void GridDependency::issued(const Actor& actor, const AsyncOp& op) {
  Waits& waits = of(actor);
  if (!waits.warps[actor.warp->slot]) waits.early.insert(op.id);
}

void GridDependency::performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) {
  if (!of(actor).early.contains(op.id)) return;
  for (const auto* ranges : {&footprint.reads, &footprint.writes}) {
    for (const Range& range : *ranges) {
      if (range.space == Space::kGlobal)
        touch(actor, range.address, range.bytes, ranges == &footprint.writes);
    }
  }
}

void GridDependency::touch(const Actor& actor, std::uint64_t address, std::uint64_t bytes, bool writes) {
  const bool written = before_->global.touched(address, bytes, true);
  if (!written && !(writes && before_->global.touched(address, bytes, false))) return;
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

}  // namespace sglab::emu
