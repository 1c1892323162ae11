#include "observe/sanitize/races/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

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
      found = pages_.emplace(number, new_page()).first;
    } else {
      Pages::node_type node = std::move(spare_.back());
      spare_.pop_back();
      node.key() = number;
      clear_all(node.mapped()->cells.data(), node.mapped()->cells.size());
      node.mapped()->stored = false;
      found = pages_.insert(std::move(node)).position;
    }
  }
  Page& page = *found->second;
  recent_[number % recent_.size()] = {number, &page};
  return page;
}

GlobalShadow::Page* GlobalShadow::new_page() {
  constexpr std::size_t kPages = kRegionBytes / sizeof(Page);
  if (regions_.empty() || taken_ == kPages) {
    regions_.emplace_back(static_cast<std::uint8_t*>(std::aligned_alloc(kRegionBytes, kRegionBytes)));
    if (regions_.back() == nullptr) {
      regions_.pop_back();
      throw std::bad_alloc();
    }
#if defined(__linux__)
    madvise(regions_.back().get(), kRegionBytes, MADV_HUGEPAGE);  // a wish
#endif
    taken_ = 0;
  }
  return ::new (regions_.back().get() + sizeof(Page) * taken_++) Page;
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
