#include "observe/sanitize/races/memory.hpp"

#include <algorithm>

namespace sglab::emu::races {

void GlobalShadow::forget() {
  clear();
  for (auto& [number, page] : pages_) spare_.push_back(std::move(page));
  pages_.clear();
  recent_.fill({});
}

GlobalShadow::Page& GlobalShadow::find_page(std::uint64_t number) {
  std::unique_ptr<Page>& page = pages_[number];
  if (page == nullptr) {
    if (spare_.empty()) {
      page = std::make_unique<Page>();
    } else {
      page = std::move(spare_.back());
      spare_.pop_back();
      clear_all(page->cells.data(), page->cells.size());
      page->stored = false;
    }
  }
  recent_[number % recent_.size()] = {number, page.get()};
  return *page;
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
