#include "machine/scheduler/pages.hpp"

#include <algorithm>
#include <cstring>

namespace sglab::emu {

const MemoryImage::Held* MemoryImage::find(const Region& region) const {
  const auto at =
      std::lower_bound(held_.begin(), held_.end(), region.data(),
                       [](const Held& h, const std::uint8_t* data) { return h.region.data() < data; });
  const bool same =
      at != held_.end() && at->region.data() == region.data() && at->region.size() == region.size();
  return same ? &*at : nullptr;
}

MemoryImage MemoryImage::take(const std::vector<Region>& regions, const MemoryImage* before) {
  // Fresh memory is mostly zero.
  static const std::shared_ptr<const Page> zero = std::make_shared<Page>();
  MemoryImage image;
  for (const Region& region : regions) {
    const Held* const known = before == nullptr ? nullptr : before->find(region);
    Held held{region, {}};
    held.pages.reserve((region.size() + kPageBytes - 1) / kPageBytes);
    for (std::size_t at = 0; at < region.size(); at += kPageBytes) {
      const std::size_t bytes = std::min(kPageBytes, region.size() - at);
      const std::shared_ptr<const Page>& old = known == nullptr ? zero : known->pages[at / kPageBytes];
      if (std::memcmp(old->data(), &region[at], bytes) == 0) {
        held.pages.push_back(old);
        continue;
      }
      const auto page = std::make_shared<Page>();
      std::memcpy(page->data(), &region[at], bytes);
      held.pages.push_back(page);
      image.fresh_bytes_ += kPageBytes;
    }
    image.held_.push_back(std::move(held));
  }
  std::sort(image.held_.begin(), image.held_.end(),
            [](const Held& a, const Held& b) { return a.region.data() < b.region.data(); });
  return image;
}

void MemoryImage::restore() const {
  for (const Held& held : held_) {
    for (std::size_t at = 0; at < held.region.size(); at += kPageBytes) {
      const std::size_t bytes = std::min(kPageBytes, held.region.size() - at);
      const Page& page = *held.pages[at / kPageBytes];
      if (std::memcmp(&held.region[at], page.data(), bytes) != 0)
        std::memcpy(&held.region[at], page.data(), bytes);
    }
  }
}

}  // namespace sglab::emu
