#include "observe/sanitize/shadow.hpp"

#include <algorithm>

namespace sglab::emu {

void MarkedMemory::mark(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0) return;
  // Ranges never overlap: one that touches others takes their place, and what was written there is forgotten.
  std::uint64_t begin = address, end = address + bytes;
  for (auto at = marked_.begin(); at != marked_.end();) {
    if (at->first < end && at->second.end > begin) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second.end);
      at = marked_.erase(at);
    } else {
      ++at;
    }
  }
  marked_.emplace(begin, Range{end, ByteFlags(end - begin)});
}

void MarkedMemory::forget(std::uint64_t address, std::uint64_t bytes) {
  std::erase_if(marked_, [&](const auto& marked) {
    return marked.first < address + bytes && marked.second.end > address;
  });
}

void MarkedMemory::written(std::uint64_t address, std::uint64_t bytes) {
  for_each_part(address, bytes, [](const Range& range, std::uint64_t offset, std::uint64_t count) {
    const_cast<Range&>(range).written.set(offset, count);
  });
}

bool MarkedMemory::initialised(std::uint64_t address, std::uint64_t bytes) const {
  bool all = true;
  for_each_part(address, bytes, [&](const Range& range, std::uint64_t offset, std::uint64_t count) {
    all &= range.written.all(offset, count);
  });
  return all;
}

}  // namespace sglab::emu
