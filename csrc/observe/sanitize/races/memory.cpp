#include "observe/sanitize/races/memory.hpp"

#include <algorithm>

namespace sglab::emu::races {

void GlobalShadow::forget() {
  clear();
  while (!pages_.empty()) spare_.push_back(pages_.extract(pages_.begin()));
  recent_.fill({});
}

GlobalShadow::Page& GlobalShadow::find_page(std::uint64_t number) {
  auto found = pages_.find(number);
  if (found == pages_.end()) {
    if (spare_.empty()) {
      found = pages_.emplace(number, std::make_unique<Page>()).first;  // all zeros
    } else {
      Pages::node_type node = std::move(spare_.back());
      spare_.pop_back();
      node.key() = number;
      clear_all(node.mapped()->cells.data(), node.mapped()->cells.size());
      node.mapped()->stored.fill(0);
      found = pages_.insert(std::move(node)).position;
    }
  }
  Page& page = *found->second;
  recent_[number % recent_.size()] = {number, &page};
  return page;
}

bool GlobalShadow::touched(std::uint64_t address, std::uint64_t bytes, bool written) const {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address, next; at < end; at = next) {
    const auto found = pages_.find(at / kPageBytes);
    if (found == pages_.end()) {
      next = (at / kPageBytes + 1) * kPageBytes;
      continue;
    }
    next = std::min(end, (at / kBlockBytes + 1) * kBlockBytes);
    const auto first = static_cast<std::uint32_t>(at % kBlockBytes);
    if (was_touched(found->second->cells[at % kPageBytes / kBlockBytes], first,
                    first + static_cast<std::uint32_t>(next - at), written))
      return true;
  }
  return false;
}

}  // namespace sglab::emu::races
