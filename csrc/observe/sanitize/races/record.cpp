#include "observe/sanitize/races/record.hpp"

namespace sglab::emu::races {
namespace {

bool same(const Record& a, const Record& b) {
  return a.pc == b.pc && a.lanes == b.lanes && a.slot == b.slot && a.clock == b.clock &&
         a.issue_slot == b.issue_slot && a.issue_clock == b.issue_clock && a.cluster == b.cluster &&
         a.strong == b.strong && a.spread == b.spread;
}

}  // namespace

std::uint32_t Records::enter(const Record& record) {
  Recent& recent = recent_[(record.pc ^ record.slot * 37u) % recent_.size()];
  const bool alike = recent.number != 0 && recent.clock == record.clock;
  if (alike && same(all_[recent.number], record)) return recent.number;
  // A launch of that many different accesses loses the oldest ones' places in reports, not their order.
  if (all_.size() > kMost) return recent.number != 0 ? recent.number : kMost;
  recent = {static_cast<std::uint32_t>(all_.size()), record.clock};
  all_.push_back(record);
  return recent.number;
}

}  // namespace sglab::emu::races
