#include "emulator/sanitize/finding.hpp"

#include <utility>

#include "emulator/engine/fault.hpp"

namespace sglab::emu {

void Findings::clear() {
  all_.clear();
  known_.clear();
}

void Findings::add(Finding finding) {
  const std::uint64_t position = finding.at.position;
  const auto [known, fresh] =
      known_.try_emplace({finding.kind, finding.at.pc, finding.other.pc}, all_.size());
  if (fresh) all_.push_back({std::move(finding), {}, 0});
  Kept& kept = all_[known->second];
  ++kept.count;
  if (kept.positions.size() < kMostPositions) kept.positions.push_back(position);
}

void Findings::report(Finding finding) {
  const std::size_t before = all_.size();
  add(std::move(finding));
  if (!stops || all_.size() == before) return;
  Fault fault;
  fault.kind = "finding";
  fault.message = all_.back().first.message;
  throw LaunchFault(std::move(fault));
}

}  // namespace sglab::emu
