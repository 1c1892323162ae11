#include "observe/sanitize/races/shadow.hpp"

#include <algorithm>

namespace sglab::emu::races {

void Shadow::clear() {
  records_.clear();
  splits_.clear();
  free_splits_.clear();
  sets_.clear();
  joins_.clear();
  joined_ = 0;
  recent_full_.fill(0);
}

// `known`: a record that was found ordered, whichever lane.
bool Shadow::check(std::uint32_t entry, bool writes, std::uint32_t& known, Judge& judge) {
  const std::uint32_t number = entry >> 5;
  if (number == 0) return true;
  const auto verdict = judge.judge(records_[number], writes, entry & 31u);
  if (verdict == Judge::Verdict::kOrdered) known = number;
  return verdict != Judge::Verdict::kRace;
}

bool Shadow::check_reads(std::uint32_t entry, std::uint32_t& known, Judge& judge) {
  if (readers_of(entry) == known) return true;
  if ((entry & kFlag) == 0) return check(entry, false, known, judge);
  bool all = true;
  for (const std::uint32_t number : sets_[entry & ~kFlag])
    all = judge.judge(records_[number], false, kNoLane) == Judge::Verdict::kOrdered && all;
  if (all) known = entry;
  return all;
}

// What Cell::read becomes when one more record reads; 0: that record alone.
std::uint32_t Shadow::with_reader(std::uint32_t reads, const Touch& touch, Judge& judge) {
  const bool set = (reads & kFlag) != 0;
  const std::uint32_t before = readers_of(reads);
  if (before == 0 || before == touch.record) return 0;
  if (!set && judge.past(records_[before])) return 0;
  const std::uint64_t key = std::uint64_t{before} << 32 | touch.record;
  std::uint64_t& recent = recent_full_[(before * 31u + touch.record) % recent_full_.size()];
  if (recent == key) return reads;
  if (!joins_.empty()) {
    if (const Joined& known = joined(key); known.key == key) return known.after;
  }
  Readers readers;
  const auto keep = [&](std::uint32_t number) { readers.records[readers.count++] = number; };
  if (set) {
    const Readers& old = sets_[reads & ~kFlag];
    for (const std::uint32_t number : old) {
      if (!judge.past(records_[number])) keep(number);
    }
    if (readers.full()) {
      recent = key;
      return reads;
    }
  } else {
    keep(before);
  }
  std::uint32_t after = 0;
  if (readers.count != 0) {
    std::uint32_t* const last = readers.records.data() + readers.count;
    std::uint32_t* const at = std::lower_bound(readers.records.data(), last, touch.record);
    if (at == last || *at != touch.record) {
      std::move_backward(at, last, last + 1);
      *at = touch.record;
      ++readers.count;
    }
    if (set && readers == sets_[reads & ~kFlag]) {
      after = reads;
    } else {
      after = kFlag | static_cast<std::uint32_t>(sets_.size());
      sets_.push_back(readers);
    }
  }
  if (2 * joined_ >= joins_.size()) {
    std::vector<Joined> old(std::max<std::size_t>(64, 2 * joins_.size()));
    old.swap(joins_);
    for (const Joined& one : old) {
      if (one.key != 0) joined(one.key) = one;
    }
  }
  joined(key) = {key, after};
  ++joined_;
  return after;
}

// The entry of this key, or the free one where it belongs.
Shadow::Joined& Shadow::joined(std::uint64_t key) {
  const std::size_t mask = joins_.size() - 1;
  std::size_t at = (key * 0x9e3779b97f4a7c15u) >> 32 & mask;
  while (joins_[at].key != 0 && joins_[at].key != key) at = (at + 1) & mask;
  return joins_[at];
}

// What the cell becomes.
Shadow::Cell Shadow::touched(const Cell cell, Touch& touch, Judge& judge) {
  const std::uint32_t alone = touch.record << 5 | touch.lane;
  if (cell.write >> 5 != touch.known_write) check(cell.write, true, touch.known_write, judge);
  if (touch.writes) {
    if (cell.read != 0) check_reads(cell.read, touch.known_read, judge);
    return {alone, 0};
  }
  // Lone readers differ by lane, and their successors do not.
  const std::uint32_t before = readers_of(cell.read);
  if (before != touch.reads_before) {
    touch.reads_after = with_reader(cell.read, touch, judge);
    touch.reads_before = before;
  }
  return {cell.write, touch.reads_after == 0 ? alone : touch.reads_after};
}

void Shadow::touch_split(Cell& cell, unsigned bytes, Touch& touch, Judge& judge) {
  if ((cell.write & kFlag) == 0) {
    std::uint32_t index = static_cast<std::uint32_t>(splits_.size());
    if (free_splits_.empty()) {
      splits_.emplace_back();
    } else {
      index = free_splits_.back();
      free_splits_.pop_back();
    }
    splits_[index].fill(cell);
    cell = {kFlag | index, 0};
  }
  const std::uint32_t index = cell.write & ~kFlag;
  for (unsigned byte = 0; byte < 4; ++byte) {
    Cell& one = splits_[index][byte];
    if (bytes >> byte & 1u) one = touched(one, touch, judge);
  }
  if (bytes != 0xfu || !touch.writes) return;
  cell = splits_[index][0];
  free_splits_.push_back(index);
}

// Cells are compared and kept as numbers, in registers: one that was written in halves and is read whole
// stalls the processor.
void Shadow::touch_rest(Cell* cells, std::size_t done, std::size_t count, Touch& touch, Judge& judge) {
  constexpr std::uint64_t kNone = number_of({kFlag, kFlag});
  std::uint64_t before = touch.cell_lane == touch.lane ? number_of(touch.before) : kNone;
  std::uint64_t after = number_of(touch.after);
  const std::uint32_t alone = touch.record << 5 | touch.lane;
  touch.cell_lane = touch.lane;
  for (std::size_t i = done; i < count;) {
    for (; i + 4 <= count && alike(cells + i, before); i += 4) std::fill_n(cells + i, 4, cell_of(after));
    if (i == count) break;
    Cell& cell = cells[i];
    const std::uint64_t found = number_of(cell);
    judge.word = i++;
    if (found == before) {
      cell = cell_of(after);
      continue;
    }
    const Cell known = cell_of(found);
    if ((known.write & kFlag) != 0) {
      touch_split(cell, 0xfu, touch, judge);
      continue;
    }
    // Mostly by other lanes of accesses that were judged already.
    const bool settled = touch.writes && known.write >> 5 == touch.known_write &&
                         (known.read == 0 || readers_of(known.read) == touch.known_read);
    const Cell next = settled ? Cell{alone, 0} : touched(known, touch, judge);
    cell = cell_of(number_of(next));
    if (!judge.each_word) before = found, after = number_of(next);
    judge.each_word = false;
  }
  touch.before = cell_of(before);
  touch.after = cell_of(after);
}

void Shadow::touch_bytes(Cell& cell, unsigned bytes, Touch& touch, Judge& judge) {
  judge.word = 0;
  touch_split(cell, bytes, touch, judge);
}

}  // namespace sglab::emu::races
