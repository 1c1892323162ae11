#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
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
  // Whether nothing that another cluster did is in its past.
  virtual bool alone() const = 0;
  // Which of the touched words is asked about; whether the last verdict is for that one alone.
  std::size_t word = 0;
  bool each_word = false;
};

constexpr std::uint32_t kNoLane = 32;

// Who last wrote, and who has read since, each word of a memory; where an access was to part of a word, each
// byte. A write is remembered alone; of reads those that no other remembered read is ordered after.
//
// Memory is kept in blocks of four words. Mostly one access touched all of a block, by one lane or by lanes
// side by side (Record::spread), and one cell says it.
class Shadow {
 public:
  static constexpr std::uint32_t kBlockWords = 4, kBlockBytes = 16;

  struct alignas(8) Cell {
    std::uint32_t write = 0;  // record << 5 | lane, a block's first; or kFlag | index of its parts
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
    // A word and a block that were in order, and what became of them for this lane. As numbers: a processor
    // waits where it stores a cell by halves and then loads it whole.
    struct Step {
      std::uint64_t before = 0, after = 0;
      std::uint32_t lane = kNoLane;
    };
    Step word{}, block{};
  };
  // Whole words, from this one of the first block on.
  void touch(Cell* block, std::uint32_t first, std::size_t count, Touch& touch, Judge& judge) {
    std::size_t done = 0;
    if (first != 0) {
      done = std::min<std::size_t>(count, kBlockWords - first);
      touch_part(*block++, first, 0, done, touch, judge);
    }
    for (; done + kBlockWords <= count; ++block, done += kBlockWords) {
      if (!touch_whole(*block, touch)) touch_block(*block, done, touch, judge);
    }
    if (done < count) touch_part(*block, 0, done, count - done, touch, judge);
  }
  // Blocks side by side, each from the lane `step` after that of the one before it on, of which nothing has
  // to be asked: nobody has touched them, or they who have are known to be ordered before. False: nothing was
  // touched, their words must be touched lane by lane.
  static bool touch_settled(Cell* blocks, std::size_t count, std::uint32_t lane, std::uint32_t step,
                            const Touch& touch) {
    std::uint32_t alone = touch.record << 5 | lane;
    std::uint64_t any = 0;
    for (std::size_t i = 0; i < count; ++i) any |= number_of(blocks[i]);
    if (any != 0) {
      const Cell first = blocks[0];
      const bool written = first.write == 0 || first.write >> 5 == touch.known_write;
      const bool read = touch.writes ? first.read == 0 || readers_of(first.read) == touch.known_read
                                     : readers_of(first.read) == touch.reads_before;
      if (!written || !read) return false;
      // All alike, but for the lanes of lone accesses.
      const std::uint64_t mask = number_of({~31u, (first.read & kFlag) != 0 ? ~0u : ~31u});
      std::uint64_t differing = 0;
      for (std::size_t i = 1; i < count; ++i) differing |= number_of(blocks[i]) ^ number_of(first);
      if ((differing & mask) != 0) return false;
    } else if (!touch.writes && touch.reads_before != 0) {
      return false;
    }
    if (touch.writes) {
      for (std::size_t i = 0; i < count; ++i, alone += step) set(blocks[i], number_of({alone, 0}));
      return true;
    }
    for (std::size_t i = 0; i < count; ++i, alone += step)
      blocks[i].read = touch.reads_after == 0 ? alone : touch.reads_after;
    return true;
  }
  // The same of one lane, which mostly finds one block like another.
  static bool touch_alike(Cell* blocks, std::size_t count, Touch& touch) {
    const std::uint64_t found = number_of(blocks[0]);
    if (found == touch.block.before && touch.block.lane == touch.lane) {
      std::uint64_t differing = 0;
      for (std::size_t i = 1; i < count; ++i) differing |= number_of(blocks[i]) ^ found;
      if (differing == 0) {
        for (std::size_t i = 0; i < count; ++i) set(blocks[i], touch.block.after);
        return true;
      }
    }
    if (!touch_settled(blocks, count, touch.lane, 0, touch)) return false;
    touch.block = {found, number_of(blocks[0]), touch.lane};
    return true;
  }
  // Bytes of one word of the block; bit i of `bytes`: byte i.
  void touch_bytes(Cell& block, std::uint32_t word, unsigned bytes, Touch& touch, Judge& judge);
  // Nobody has touched the block.
  void forget(Cell& block);
  // Whether some of the bytes from `begin` to `end` of a block were touched, or written.
  bool was_touched(const Cell& block, std::uint32_t begin, std::uint32_t end, bool written) const;

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
  using Parts = std::array<Cell, 4>;  // words of a block, or bytes of a word
  static constexpr std::uint64_t number_of(const Cell& cell) { return std::bit_cast<std::uint64_t>(cell); }
  static void set(Cell& cell, std::uint64_t number) { cell = std::bit_cast<Cell>(number); }
  // Of Cell::read: the set, or the record that alone has read, whichever its lane.
  static std::uint32_t readers_of(std::uint32_t read) { return (read & kFlag) != 0 ? read : read >> 5; }
  // A whole block of which nothing has to be asked.
  static bool touch_whole(Cell& block, const Touch& touch) {
    const Cell found = block;
    if (number_of(found) == touch.block.before && touch.block.lane == touch.lane) {
      set(block, touch.block.after);
      return true;
    }
    if (found.write != 0 && found.write >> 5 != touch.known_write) return false;
    const std::uint32_t readers = readers_of(found.read), alone = touch.record << 5 | touch.lane;
    if (touch.writes) {
      if (found.read != 0 && readers != touch.known_read) return false;
      block = {alone, 0};
      return true;
    }
    if (readers != touch.reads_before) return false;
    block = {found.write, touch.reads_after == 0 ? alone : touch.reads_after};
    return true;
  }
  void touch_block(Cell& block, std::size_t done, Touch& touch, Judge& judge);
  void touch_part(Cell& block, std::uint32_t first, std::size_t done, std::size_t count, Touch& touch,
                  Judge& judge);
  void touch_words(Cell* words, std::size_t done, std::size_t count, Touch& touch, Judge& judge);
  // By how many lanes a word's is after that of its block's first word.
  std::uint32_t lanes_before(std::uint32_t entry, std::uint32_t word) const {
    return entry == 0 || (entry & kFlag) != 0 ? 0 : word * records_[entry >> 5].spread / kBlockWords;
  }
  Parts words_of(const Cell& block) const;
  bool gather(const Parts& words, Cell& block) const;
  void put(Cell& block, const Parts& words);
  template <class F>
  void for_words_apart(Cell& block, std::uint32_t first, std::size_t count, F f);
  std::uint32_t keep(const Parts& parts);
  bool check(std::uint32_t entry, bool writes, std::uint32_t& known, Judge& judge);
  bool check_reads(std::uint32_t entry, std::uint32_t& known, Judge& judge);
  std::uint32_t with_reader(std::uint32_t reads, const Touch& touch, Judge& judge);
  Cell touched(Cell cell, Touch& touch, Judge& judge);
  void touch_split(Cell& cell, unsigned bytes, Touch& touch, Judge& judge);

  Records records_;
  std::vector<Parts> parts_;
  std::vector<std::uint32_t> free_parts_;
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
  // The last full sets of which no record is of a cluster: what all CTAs of a grid read.
  struct Strange {
    std::uint64_t cluster = 0;
    std::uint32_t set = 0;  // with kFlag; 0: none
  };
  std::array<Strange, 64> recent_strange_{};
};

}  // namespace sglab::emu::races
