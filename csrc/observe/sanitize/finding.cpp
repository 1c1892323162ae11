#include "observe/sanitize/finding.hpp"

#include <utility>

#include "machine/engine/fault.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {

void Findings::clear(const Program* program) {
  program_ = program;
  all_.clear();
  known_.clear();
}

// A line of the source and what is executed there; without line information an instruction by itself.
Findings::Place Findings::place_of(std::int64_t pc) const {
  if (pc < 0 || program_ == nullptr) return {{}, pc};
  const emu::Place& place = program_->places[static_cast<std::size_t>(pc)];
  if (place.location == kNoIndex || place.opcode == kNoIndex) return {{}, pc};
  const Module& module = program_->image->module();
  const Location& location = module.locations[place.location];
  return {std::string(module.opcodes[place.opcode]), std::int64_t{location.file} << 32 | location.line};
}

void Findings::add(Finding finding) {
  const auto [known, fresh] =
      known_.try_emplace({finding.kind, place_of(finding.at.pc), place_of(finding.other.pc)}, all_.size());
  if (fresh) all_.push_back({std::move(finding), {}, 0});
  Kept& kept = all_[known->second];
  ++kept.count;
  if (kept.positions.size() < kMostPositions) kept.positions.push_back(now_);
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
