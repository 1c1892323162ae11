#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "machine/tensor/tmem.hpp"

namespace sglab::emu {

// One bit for each byte of a memory.
class ByteFlags {
 public:
  ByteFlags() = default;
  explicit ByteFlags(std::size_t bytes) { reset(bytes); }
  // None set.
  void reset(std::size_t bytes) { words_.assign(bytes / 64 + 2, 0); }

  void set(std::uint64_t begin, std::uint64_t bytes) {
    for_each_word(begin, bytes, [](std::uint64_t& word, std::uint64_t mask) { word |= mask; });
  }
  void clear(std::uint64_t begin, std::uint64_t bytes) {
    for_each_word(begin, bytes, [](std::uint64_t& word, std::uint64_t mask) { word &= ~mask; });
  }
  bool all(std::uint64_t begin, std::uint64_t bytes) const {
    const std::uint64_t bit = begin % 64;
    if (bytes < 64 && bit + bytes <= 64) {
      const std::uint64_t mask = ((std::uint64_t{1} << bytes) - 1) << bit;
      return (words_[begin / 64] & mask) == mask;
    }
    bool found = true;
    const_cast<ByteFlags*>(this)->for_each_word(
        begin, bytes, [&](const std::uint64_t& word, std::uint64_t mask) { found &= (word & mask) == mask; });
    return found;
  }
  bool any(std::uint64_t begin, std::uint64_t bytes) const {
    bool found = false;
    const_cast<ByteFlags*>(this)->for_each_word(
        begin, bytes, [&](const std::uint64_t& word, std::uint64_t mask) { found |= (word & mask) != 0; });
    return found;
  }
  bool empty() const { return words_.empty(); }

 private:
  template <class F>
  void for_each_word(std::uint64_t begin, std::uint64_t bytes, F f) {
    while (bytes != 0) {
      const std::uint64_t bit = begin % 64, some = bytes < 64 - bit ? bytes : 64 - bit;
      const std::uint64_t mask = (some == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << some) - 1) << bit;
      f(words_[begin / 64], mask);
      begin += some;
      bytes -= some;
    }
  }

  std::vector<std::uint64_t> words_;
};

// One bit for each cell of a tensor memory.
class CellFlags {
 public:
  void set(std::uint32_t column, std::uint32_t lane, std::uint32_t lanes) {
    for_each_word(column, lane, lanes, [](std::uint64_t& word, std::uint64_t mask) { word |= mask; });
  }
  void clear(std::uint32_t column, std::uint32_t lane, std::uint32_t lanes) {
    for_each_word(column, lane, lanes, [](std::uint64_t& word, std::uint64_t mask) { word &= ~mask; });
  }
  bool all(std::uint32_t column, std::uint32_t lane, std::uint32_t lanes) {
    bool found = true;
    for_each_word(column, lane, lanes,
                  [&](const std::uint64_t& word, std::uint64_t mask) { found &= (word & mask) == mask; });
    return found;
  }
  bool any(std::uint32_t column, std::uint32_t lane, std::uint32_t lanes) {
    bool found = false;
    for_each_word(column, lane, lanes,
                  [&](const std::uint64_t& word, std::uint64_t mask) { found |= (word & mask) != 0; });
    return found;
  }
  bool at(std::uint32_t column, std::uint32_t lane) const {
    return column < cells_.size() && (cells_[column][lane / 64 & 1] >> (lane % 64) & 1) != 0;
  }

 private:
  template <class F>
  void for_each_word(std::uint32_t column, std::uint32_t lane, std::uint32_t lanes, F f) {
    if (column >= cells_.size()) return;
    for (std::uint32_t half = lane / 64; half < 2; ++half) {
      const std::uint32_t begin = lane > 64 * half ? lane - 64 * half : 0;
      const std::uint32_t end = lane + lanes > 64 * half ? lane + lanes - 64 * half : 0;
      if (end <= begin) return;
      const std::uint64_t below_end = end >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1;
      f(cells_[column][half], below_end & ~((std::uint64_t{1} << begin) - 1));
    }
  }

  std::array<std::array<std::uint64_t, 2>, TensorMemory::kColumns> cells_{};
};

// Bytes of global memory that the user has marked as not initialised; writing them initialises them.
// Lasts longer than a launch.
class MarkedMemory {
 public:
  void mark(std::uint64_t address, std::uint64_t bytes);
  // The memory is somebody else's now.
  void forget(std::uint64_t address, std::uint64_t bytes);
  bool empty() const { return marked_.empty(); }
  void written(std::uint64_t address, std::uint64_t bytes);
  bool initialised(std::uint64_t address, std::uint64_t bytes) const;

 private:
  struct Range {
    std::uint64_t end;
    ByteFlags written;
  };
  // Calls f(flags, offset, bytes) for each part of the range that was marked.
  template <class F>
  void for_each_part(std::uint64_t address, std::uint64_t bytes, F f) const {
    for (auto at = marked_.begin(); at != marked_.end() && at->first < address + bytes; ++at) {
      const std::uint64_t begin = address > at->first ? address : at->first;
      const std::uint64_t end = address + bytes < at->second.end ? address + bytes : at->second.end;
      if (begin < end) f(at->second, begin - at->first, end - begin);
    }
  }
  std::map<std::uint64_t, Range> marked_;  // by first address
};

}  // namespace sglab::emu
