#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sglab::emu {

// What some stretches of memory held at one moment. Images taken one after the other share the pages that did
// not change in between, so many of them take little room; they need no notice of what was written.
class MemoryImage {
 public:
  using Region = std::span<std::uint8_t>;

  // `before`: the latest earlier image, or nullptr.
  static MemoryImage take(const std::vector<Region>& regions, const MemoryImage* before);
  // Writes only what differs.
  void restore() const;
  std::size_t fresh_bytes() const { return fresh_bytes_; }  // that no earlier image holds

 private:
  static constexpr std::size_t kPageBytes = 4096;
  using Page = std::array<std::uint8_t, kPageBytes>;
  struct Held {
    Region region;
    std::vector<std::shared_ptr<const Page>> pages;
  };
  const Held* find(const Region& region) const;

  std::vector<Held> held_;  // by address
  std::size_t fresh_bytes_ = 0;
};

}  // namespace sglab::emu
