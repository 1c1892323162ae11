#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "machine/program/image.hpp"

namespace sglab::emu {

// The heap of malloc and free in kernels: global memory of the process, as a GPU has one per context. What a
// kernel allocated stays until a kernel frees it. Each block's header stands before it in that memory, so
// that a launch that is stepped back takes its allocations back as well.
class DeviceHeap {
 public:
  static constexpr std::uint64_t kDefaultBytes = std::uint64_t{8} << 20;
  static constexpr std::uint64_t kAlignment = 16;

  enum class Release : std::uint8_t { kDone, kFreeAlready, kNoBlock };

  struct Use {
    std::uint64_t blocks = 0, bytes = 0;
  };

  static DeviceHeap& get();

  // A kernel that allocates is about to run: from now on the heap has memory, and its size stands.
  void require();
  // False: it has memory already and is of another size.
  bool resize(std::uint64_t bytes);
  // Nothing is allocated any more.
  void reset();
  // Empty unless a kernel required it.
  Allocation span() const;

  // The address, 0 where no free block is large enough. Throws std::runtime_error if a header was
  // overwritten.
  std::uint64_t allocate(std::uint64_t bytes);
  Release release(std::uint64_t address);
  // What is not freed.
  Use use() const;

 private:
  struct Header;

  void clear();
  Header* header_at(std::uint64_t offset) const;
  // Joins the free blocks that follow a free one.
  void join(std::uint64_t offset) const;
  std::uint64_t take_from(std::uint64_t first, std::uint64_t last, std::uint64_t bytes) const;

  mutable std::mutex mutex_;
  std::uint64_t bytes_ = kDefaultBytes;
  std::unique_ptr<std::uint8_t, Freed> memory_;
};

}  // namespace sglab::emu
