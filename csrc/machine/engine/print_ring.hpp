#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sglab::emu {

// What a launch has printed: the last megabyte, as a GPU's ring keeps it. A value: copies share what is full.
class PrintRing {
 public:
  static constexpr std::size_t kBytes = 1 << 20;

  void append(std::string_view text) {
    written_ += text.size();
    if (text.size() > kBytes) text.remove_prefix(text.size() - kBytes);
    newer_ += text;
    if (newer_.size() < kBytes) return;
    older_ = std::make_shared<const std::string>(std::move(newer_));
    newer_.clear();
  }

  std::string text() const {
    std::string all = older_ == nullptr ? newer_ : *older_ + newer_;
    if (all.size() <= kBytes) return all;
    std::size_t cut = all.size() - kBytes;
    while (cut < all.size() && (all[cut] & 0xc0) == 0x80) ++cut;  // not within a character
    return all.substr(cut);
  }

  std::uint64_t written() const { return written_; }  // bytes, forgotten ones included

 private:
  std::shared_ptr<const std::string> older_;  // nullptr, or at least kBytes
  std::string newer_;                         // fewer than kBytes
  std::uint64_t written_ = 0;
};

}  // namespace sglab::emu
