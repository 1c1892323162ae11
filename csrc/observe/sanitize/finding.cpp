#include "observe/sanitize/finding.hpp"

#include <utility>

#include "machine/engine/fault.hpp"

namespace sglab::emu {

void Findings::clear() {
  all_.clear();
  known_.clear();
}

void Findings::add(Finding finding) {
  const auto [known, fresh] =
      known_.try_emplace({finding.kind, finding.at.pc, finding.other.pc}, all_.size());
  if (fresh) all_.push_back({std::move(finding), {}, 0});
  Kept& kept = all_[known->second];
  ++kept.count;
  if (kept.positions.size() < kMostPositions) kept.positions.push_back(now);
}

void Findings::report(Finding finding) {
  const bool ends = stops && finding.error;
  add(std::move(finding));
  if (!ends) return;
  Fault fault;
  fault.kind = "finding";
  fault.message = all_.back().first.message;
  throw LaunchFault(std::move(fault));
}

}  // namespace sglab::emu
