#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace sglab::emu {

// A tensor-memory address: lane in the high half, column in the low half.
struct TmemAddress {
  std::uint32_t lane;
  std::uint32_t column;

  static constexpr TmemAddress decode(std::uint32_t bits) { return {bits >> 16, bits & 0xffffu}; }
  constexpr std::uint32_t encode() const { return lane << 16 | column; }
};

// One CTA's tensor memory: 128 lanes x 512 columns of 32 bits, with what is allocated and what was ever
// written.
//
// Cells are column by column, lanes contiguous, so that a column of D is a vector and tcgen05.ld.32x32b is a
// copy.
class TensorMemory {
 public:
  static constexpr std::uint32_t kLanes = 128;
  static constexpr std::uint32_t kColumns = 512;
  static constexpr std::uint32_t kUnit = 32;  // columns per allocation unit

  enum class AllocStatus : std::uint8_t {
    kDone,
    kMustWait,
    kBadCount,
    kNotAllocated,
    kPermitRelinquished,
    kGrows
  };
  struct Allocation {
    AllocStatus status;
    std::uint32_t column;
  };

  // `follows`: keeps who wrote each cell last.
  explicit TensorMemory(bool follows = false)
      : cells_(kLanes * kColumns), writers_(follows ? kColumns * kLanes / kWriterLanes : 0) {}
  // Everything free and unwritten, as for a new CTA; the cells keep their bits.
  void reset();

  // tcgen05.alloc: the lowest free range of `columns` (a power of two, 32 to 512), aligned to its size.
  Allocation allocate(std::uint32_t columns);
  // tcgen05.dealloc of a range that allocate() returned.
  AllocStatus release(std::uint32_t column, std::uint32_t columns);
  void relinquish_permit() { permit_ = false; }

  bool is_allocated(std::uint32_t column) const { return column < kColumns && owner_[column / kUnit] != 0; }
  // 0: free. Otherwise the number of the allocation (1, 2, …) that holds the column.
  std::uint32_t owner(std::uint32_t column) const { return owner_[column / kUnit]; }
  bool anything_allocated() const;

  std::uint32_t* column(std::uint32_t index) { return cells_.data() + index * kLanes; }
  const std::uint32_t* column(std::uint32_t index) const { return cells_.data() + index * kLanes; }
  std::uint32_t& cell(std::uint32_t lane, std::uint32_t index) { return column(index)[lane]; }
  std::uint32_t cell(std::uint32_t lane, std::uint32_t index) const { return column(index)[lane]; }

  // Who writes: an instruction of a warp, and the position in the launch at which it was issued.
  struct Writer {
    std::uint64_t position = 0;
    std::uint32_t warp = 0;  // slot in the cluster
    std::uint32_t pc = 0;
    bool known = false;
  };
  static constexpr std::uint32_t kWriterLanes = 16;  // lanes that share what is kept
  void set_writer(const Writer& writer) { writer_ = writer; }
  // By column, then by 16 lanes; empty if this memory does not follow it.
  const std::vector<Writer>& writers() const { return writers_; }

  // Which cells were written since their column was allocated: bit l of word l / 64.
  using LaneMask = std::array<std::uint64_t, 2>;
  const LaneMask& written(std::uint32_t index) const { return written_[index]; }
  void mark_written(std::uint32_t index, std::uint32_t lane, std::uint32_t lanes) {
    mark_written(index, 1, lane, lanes);
  }
  void mark_written(std::uint32_t index, std::uint32_t columns, std::uint32_t lane, std::uint32_t lanes);

 private:
  std::vector<std::uint32_t> cells_;
  std::array<LaneMask, kColumns> written_{};
  Writer writer_;
  std::vector<Writer> writers_;
  std::array<std::uint32_t, kColumns / kUnit> owner_{};
  std::uint32_t allocations_ = 0;
  std::uint32_t last_columns_ = kColumns;
  bool permit_ = true;
};

const char* alloc_status_name(TensorMemory::AllocStatus status);

}  // namespace sglab::emu
