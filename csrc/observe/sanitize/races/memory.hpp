#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "observe/sanitize/races/shadow.hpp"

namespace sglab::emu::races {

// What is all zeros is as new. Compilers fill cells one by one.
template <class Word>
void clear_all(Word* words, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Word>);
  std::memset(static_cast<void*>(words), 0, count * sizeof(Word));
}

// Shadows of shared memory that clusters have left for those after them: new memory costs more than to clear
// it.
struct SpareShadows {
  std::vector<std::vector<Shadow::Cell>> cells;
  std::vector<std::vector<std::uint8_t>> values;

  template <class Word>
  static void take(std::vector<std::vector<Word>>& spare, std::vector<Word>& into, std::size_t count) {
    if (!spare.empty()) {
      into = std::move(spare.back());
      spare.pop_back();
    }
    into.resize(count);
    clear_all(into.data(), count);
  }
  template <class Word>
  static void leave(std::vector<std::vector<Word>>& spare, std::vector<std::vector<Word>>& from) {
    for (std::vector<Word>& one : from) {
      if (!one.empty()) spare.push_back(std::move(one));
    }
  }
};

// Global memory, by page.
class GlobalShadow : public Shadow {
 public:
  static constexpr std::uint64_t kPageBytes = 4096, kPageBlocks = kPageBytes / kBlockBytes;
  struct Page {
    std::array<Cell, kPageBlocks> cells;
    std::array<std::uint64_t, kPageBlocks / 64> stored;  // a bit for each block that threads have stored to
    std::array<std::uint8_t, kPageBytes> values;         // of these, what they have

    // Where these bytes are in `values`; what nobody has stored is zeros.
    std::uint8_t* written(std::uint64_t offset, std::uint32_t bytes) {
      for (std::uint64_t block = offset / kBlockBytes; block * kBlockBytes < offset + bytes; ++block) {
        std::uint64_t& known = stored[block / 64];
        const std::uint64_t bit = std::uint64_t{1} << block % 64;
        if ((known & bit) == 0) std::memset(&values[block * kBlockBytes], 0, kBlockBytes);
        known |= bit;
      }
      return &values[offset];
    }
    // The same of up to 64 whole blocks, for somebody who stores to them.
    std::uint8_t* overwritten(std::uint64_t offset, std::uint32_t blocks) {
      const std::uint64_t first = offset / kBlockBytes, bits = ~std::uint64_t{0} >> (64 - blocks);
      stored[first / 64] |= bits << first % 64;
      if (first % 64 + blocks > 64) stored[first / 64 + 1] |= bits >> (64 - first % 64);
      return &values[offset];
    }
  };
  // Nothing was touched; pages are kept for what comes.
  void forget();
  // The page that holds this address.
  Page& find(std::uint64_t address) {
    const std::uint64_t number = address / kPageBytes;
    const Recent& recent = recent_[number % recent_.size()];
    return recent.number == number ? *recent.page : find_page(number);
  }
  // Whether some of these bytes were touched, or written.
  bool touched(std::uint64_t address, std::uint64_t bytes, bool written) const;
  std::size_t pages() const { return pages_.size() + spare_.size(); }

 private:
  struct Recent {
    std::uint64_t number = ~std::uint64_t{0};
    Page* page = nullptr;
  };
  Page& find_page(std::uint64_t number);

  using Pages = std::unordered_map<std::uint64_t, std::unique_ptr<Page>>;
  Pages pages_;
  std::vector<Pages::node_type> spare_;
  std::array<Recent, 1024> recent_;
};

// What the detector knows of a launch's memory and keeps for later launches of the device: new memory costs
// more than what is found out about it.
struct LaunchMemory {
  GlobalShadow global;
  SpareShadows spare;
};

}  // namespace sglab::emu::races
