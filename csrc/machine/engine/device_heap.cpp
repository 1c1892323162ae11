#include "machine/engine/device_heap.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

namespace sglab::emu {

namespace {

constexpr std::uint64_t kUsed = 0x8badf00d75736564u, kFree = 0x8badf00d66726565u;

}  // namespace

// Before each block. The first of all belongs to no block: its `bytes` say where the next search starts, so
// that memory that was just freed is the last to be given again.
struct DeviceHeap::Header {
  std::uint64_t bytes;  // of the block, without this
  std::uint64_t state;
};

DeviceHeap& DeviceHeap::get() {
  static DeviceHeap heap;
  return heap;
}

void DeviceHeap::require() {
  const std::lock_guard lock(mutex_);
  if (memory_ != nullptr) return;
  memory_.reset(static_cast<std::uint8_t*>(std::calloc(1, bytes_)));
  if (memory_ == nullptr) throw std::bad_alloc();
  clear();
}

void DeviceHeap::reset() {
  const std::lock_guard lock(mutex_);
  if (memory_ != nullptr) clear();
}

void DeviceHeap::clear() {
  *header_at(0) = {sizeof(Header), kUsed};
  *header_at(sizeof(Header)) = {bytes_ - 2 * sizeof(Header), kFree};
}

bool DeviceHeap::resize(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes = std::max(bytes / kAlignment * kAlignment, 4 * kAlignment);
  if (memory_ != nullptr) return bytes == bytes_;
  bytes_ = bytes;
  return true;
}

Allocation DeviceHeap::span() const {
  const std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<std::uint64_t>(memory_.get());
  return {begin, memory_ == nullptr ? begin : begin + bytes_, "the device heap"};
}

std::uint64_t DeviceHeap::allocate(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes == 0 || bytes > bytes_) return 0;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::uint64_t start = header_at(0)->bytes;
  const std::uint64_t later = take_from(start, bytes_, bytes);
  return later != 0 ? later : take_from(sizeof(Header), start, bytes);
}

DeviceHeap::Release DeviceHeap::release(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t offset = address - reinterpret_cast<std::uint64_t>(memory_.get());
  if (memory_ == nullptr || offset < 2 * sizeof(Header) || offset >= bytes_ || offset % kAlignment != 0)
    return Release::kNoBlock;
  Header* const header = header_at(offset - sizeof(Header));
  if (header->state == kFree) return Release::kFreeAlready;
  if (header->state != kUsed) return Release::kNoBlock;
  header->state = kFree;
  return Release::kDone;
}

DeviceHeap::Use DeviceHeap::use() const {
  const std::lock_guard lock(mutex_);
  Use sum;
  for (std::uint64_t at = sizeof(Header); memory_ != nullptr && at < bytes_;) {
    const Header& header = *header_at(at);
    if (header.state == kUsed) ++sum.blocks, sum.bytes += header.bytes;
    at += sizeof(Header) + header.bytes;
  }
  return sum;
}

DeviceHeap::Header* DeviceHeap::header_at(std::uint64_t offset) const {
  return reinterpret_cast<Header*>(memory_.get() + offset);
}

void DeviceHeap::join(std::uint64_t offset) const {
  Header& header = *header_at(offset);
  std::uint64_t next = offset + sizeof(Header) + header.bytes;
  while (next < bytes_ && header_at(next)->state == kFree) {
    if (header_at(0)->bytes == next) header_at(0)->bytes = offset;
    header.bytes += sizeof(Header) + header_at(next)->bytes;
    next = offset + sizeof(Header) + header.bytes;
  }
}

// The first free block with its header in [first, last) that is large enough, cut to size.
std::uint64_t DeviceHeap::take_from(std::uint64_t first, std::uint64_t last, std::uint64_t bytes) const {
  for (std::uint64_t at = first; at < last;) {
    Header& header = *header_at(at);
    const bool known = header.state == kFree || header.state == kUsed;
    if (!known || header.bytes % kAlignment != 0 || header.bytes > bytes_ - at - sizeof(Header))
      throw std::runtime_error("the header of the block at byte " + std::to_string(at + sizeof(Header)) +
                               " was overwritten");
    if (header.state == kFree) {
      join(at);
      if (header.bytes >= bytes) {
        if (const std::uint64_t rest = header.bytes - bytes; rest > sizeof(Header)) {
          *header_at(at + sizeof(Header) + bytes) = {rest - sizeof(Header), kFree};
          header.bytes = bytes;
        }
        header.state = kUsed;
        const std::uint64_t next = at + sizeof(Header) + header.bytes;
        header_at(0)->bytes = next < bytes_ ? next : sizeof(Header);
        return reinterpret_cast<std::uint64_t>(memory_.get()) + at + sizeof(Header);
      }
    }
    at += sizeof(Header) + header.bytes;
  }
  return 0;
}

}  // namespace sglab::emu
