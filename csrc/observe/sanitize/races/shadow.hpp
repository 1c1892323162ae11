#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "observe/sanitize/races/record.hpp"

namespace sglab::emu::races {

// An access being made, to be compared with those that the shadow holds.
class Judge {
 public:
  enum class Verdict : std::uint8_t { kOrdered, kOrderedForLane, kRace };
  virtual ~Judge() = default;
  // Whether the earlier access is ordered before this one, or cannot clash with it. kOrderedForLane: another
  // lane of that access might not be. kNoLane: any.
  virtual Verdict judge(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane) = 0;
  // The same, without looking for a race: is it in this access's past?
  virtual bool past(const Record& earlier) = 0;
  // Which of the touched words is asked about; whether the last verdict is for that one alone.
  std::size_t word = 0;
  bool each_word = false;
};

constexpr std::uint32_t kNoLane = 32;

// Who last wrote, and who has read since, each word of a memory; where an access was to part of a word, each
// byte. A write is remembered alone; of reads those that no other remembered read is ordered after.
class Shadow {
 public:
  struct alignas(8) Cell {
    std::uint32_t write = 0;  // record << 5 | lane; or kFlag | index of four cells, one per byte
    std::uint32_t read = 0;   // the same; or kFlag | index of a set of records
    bool operator==(const Cell&) const = default;
  };

  Shadow() { clear(); }
  void clear();
  std::uint32_t enter(const Record& record) { return records_.enter(record); }
  const Record& record(std::uint32_t number) const { return records_[number]; }

  // One access, and what was found out about its order while it touched cells.
  struct Touch {
    std::uint32_t record;
    std::uint32_t lane = 0;
    bool writes = false;

    std::uint32_t known_write = 0, known_read = 0;    // entries that are ordered before
    std::uint32_t reads_before = 0, reads_after = 0;  // Cell::read without and with this access; 0: alone
    Cell before{}, after{};                           // a cell that was in order, and what became of it
    std::uint32_t cell_lane = kNoLane;                // for this lane
  };
  // Whole words. Cells that were equal become equal: four together, since most accesses are of sixteen bytes
  // or more.
  void touch(Cell* cells, std::size_t count, Touch& touch, Judge& judge) {
    std::size_t done = 0;
    if (touch.cell_lane == touch.lane) {
      const std::uint64_t before = number_of(touch.before);
      for (; done + 4 <= count && alike(cells + done, before); done += 4)
        cells[done] = cells[done + 1] = cells[done + 2] = cells[done + 3] = touch.after;
    }
    if (done < count) touch_rest(cells, done, count, touch, judge);
  }
  // Elements side by side, each of kWords words and of the lane `step` after that of the one before it, of
  // which nothing has to be asked: nobody has touched them, or they who have are known to be ordered before.
  // False: nothing was touched, they must be touched one by one.
  template <std::size_t kWords>
  bool touch_settled(Cell* cells, std::size_t count, std::uint32_t lane, std::uint32_t step,
                     const Touch& touch) const {
    const Cell first = cells[0];
    const bool written = first.write == 0 || first.write >> 5 == touch.known_write;
    const bool read = touch.writes ? first.read == 0 || readers_of(first.read) == touch.known_read
                                   : readers_of(first.read) == touch.reads_before;
    if (!written || !read) return false;
    // All alike, but for the lanes of lone accesses.
    const std::uint64_t mask = number_of({~31u, (first.read & kFlag) != 0 ? ~0u : ~31u});
    std::uint64_t differing = 0;
    for (std::size_t i = 1; i < count * kWords; ++i) differing |= number_of(cells[i]) ^ number_of(first);
    if ((differing & mask) != 0) return false;
    std::uint32_t alone = touch.record << 5 | lane;
    for (std::size_t i = 0; i < count; ++i, alone += step) {
      const std::uint32_t reads = touch.reads_after == 0 ? alone : touch.reads_after;
      for (Cell *cell = cells + i * kWords, *const end = cell + kWords; cell != end; ++cell)
        *cell = touch.writes ? Cell{alone, 0} : Cell{cell->write, reads};
    }
    return true;
  }
  // Bytes of one word; bit i of `bytes`: byte i.
  void touch_bytes(Cell& cell, unsigned bytes, Touch& touch, Judge& judge);

 private:
  static constexpr std::uint32_t kFlag = 0x80000000u;
  // Readers of one word that are remembered; any of them shows that a write is not ordered after all. Rising.
  struct Readers {
    std::uint32_t count = 0;
    std::array<std::uint32_t, 8> records{};
    const std::uint32_t* begin() const { return records.data(); }
    const std::uint32_t* end() const { return records.data() + count; }
    bool full() const { return count == records.size(); }
    bool operator==(const Readers&) const = default;
  };
  static constexpr std::uint64_t number_of(const Cell& cell) { return std::bit_cast<std::uint64_t>(cell); }
  static constexpr Cell cell_of(std::uint64_t number) { return std::bit_cast<Cell>(number); }
  // Of Cell::read: the set, or the record that alone has read, whichever its lane.
  static std::uint32_t readers_of(std::uint32_t read) { return (read & kFlag) != 0 ? read : read >> 5; }
  // Whether four cells are all like this one.
  static bool alike(const Cell* cells, std::uint64_t one) {
    return ((number_of(cells[0]) ^ one) | (number_of(cells[1]) ^ one) | (number_of(cells[2]) ^ one) |
            (number_of(cells[3]) ^ one)) == 0;
  }
  void touch_rest(Cell* cells, std::size_t done, std::size_t count, Touch& touch, Judge& judge);
  bool check(std::uint32_t entry, bool writes, std::uint32_t& known, Judge& judge);
  bool check_reads(std::uint32_t entry, std::uint32_t& known, Judge& judge);
  std::uint32_t with_reader(std::uint32_t reads, const Touch& touch, Judge& judge);
  Cell touched(Cell cell, Touch& touch, Judge& judge);
  void touch_split(Cell& cell, unsigned bytes, Touch& touch, Judge& judge);

  Records records_;
  std::vector<std::array<Cell, 4>> splits_;
  std::vector<std::uint32_t> free_splits_;
  std::vector<Readers> sets_;

  // What with_reader() made, by set << 32 | record: a hash table without gaps between what collides.
  struct Joined {
    std::uint64_t key = 0;  // 0: free
    std::uint32_t after = 0;
  };
  Joined& joined(std::uint64_t key);
  std::vector<Joined> joins_;
  std::size_t joined_ = 0;  // in use
  // The last sets that had no room for a record.
  std::array<std::uint64_t, 256> recent_full_{};
};

}  // namespace sglab::emu::races
