#include "machine/tensor/tmem.hpp"

#include <algorithm>

namespace sglab::emu {
namespace {

bool valid_count(std::uint32_t columns) {
  return columns >= TensorMemory::kUnit && columns <= TensorMemory::kColumns && std::has_single_bit(columns);
}

// Bits [low, low + count) of a 64-bit word, for ranges that may be partly or wholly outside it.
std::uint64_t bit_range(std::int64_t low, std::int64_t count) {
  const std::int64_t first = std::clamp<std::int64_t>(low, 0, 64),
                     last = std::clamp<std::int64_t>(low + count, 0, 64);
  const auto below = [](std::int64_t bit) { return bit == 64 ? ~0ull : (1ull << bit) - 1; };
  return below(last) & ~below(first);
}

}  // namespace

void TensorMemory::reset() {
  written_.fill({});
  owner_.fill(0);
  allocations_ = 0;
  last_columns_ = kColumns;
  permit_ = true;
}

TensorMemory::Allocation TensorMemory::allocate(std::uint32_t columns) {
  if (!valid_count(columns)) return {AllocStatus::kBadCount, 0};
  if (!permit_) return {AllocStatus::kPermitRelinquished, 0};
  if (columns > last_columns_) return {AllocStatus::kGrows, 0};
  const std::uint32_t units = columns / kUnit;
  for (std::uint32_t first = 0; first + units <= owner_.size(); first += units) {
    const auto begin = owner_.begin() + first;
    if (std::any_of(begin, begin + units, [](std::uint32_t owner) { return owner != 0; })) continue;
    std::fill(begin, begin + units, ++allocations_);
    last_columns_ = columns;
    for (std::uint32_t c = first * kUnit; c < first * kUnit + columns; ++c) written_[c] = {};
    return {AllocStatus::kDone, first * kUnit};
  }
  return {AllocStatus::kMustWait, 0};
}

TensorMemory::AllocStatus TensorMemory::release(std::uint32_t column, std::uint32_t columns) {
  if (!valid_count(columns)) return AllocStatus::kBadCount;
  if (column % kUnit != 0 || column + columns > kColumns) return AllocStatus::kNotAllocated;
  const auto begin = owner_.begin() + column / kUnit, end = begin + columns / kUnit;
  const std::uint32_t owner = *begin;
  const bool same = std::all_of(begin, end, [owner](std::uint32_t other) { return other == owner; });
  const auto held = std::count(owner_.begin(), owner_.end(), owner);
  if (owner == 0 || !same || held != end - begin) return AllocStatus::kNotAllocated;
  std::fill(begin, end, 0u);
  return AllocStatus::kDone;
}

bool TensorMemory::anything_allocated() const {
  return std::any_of(owner_.begin(), owner_.end(), [](std::uint32_t owner) { return owner != 0; });
}

void TensorMemory::mark_written(std::uint32_t index, std::uint32_t columns, std::uint32_t lane,
                                std::uint32_t lanes) {
  const std::uint64_t low = bit_range(lane, lanes);
  const std::uint64_t high = bit_range(static_cast<std::int64_t>(lane) - 64, lanes);
  for (std::uint32_t c = index; c < index + columns; ++c) {
    written_[c][0] |= low;
    written_[c][1] |= high;
  }
  if (writers_.empty()) return;
  constexpr std::uint32_t kPerColumn = kLanes / kWriterLanes;
  const std::uint32_t first = lane / kWriterLanes, last = (lane + lanes - 1) / kWriterLanes;
  for (std::uint32_t c = index; c < index + columns; ++c) {
    for (std::uint32_t i = first; i <= last; ++i) writers_[c * kPerColumn + i] = writer_;
  }
}

const char* alloc_status_name(TensorMemory::AllocStatus status) {
  constexpr const char* kNames[] = {
      "done",          "must_wait",           "bad_column_count",
      "not_allocated", "permit_relinquished", "larger_than_previous_allocation"};
  return kNames[static_cast<int>(status)];
}

}  // namespace sglab::emu
