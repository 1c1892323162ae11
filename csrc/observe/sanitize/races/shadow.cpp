#include "observe/sanitize/races/shadow.hpp"

#include <algorithm>

namespace sglab::emu::races {
namespace {

// Readers of one word that are remembered; any of them shows that a write is not ordered after all.
constexpr std::size_t kMostReaders = 8;

}  // namespace

void Shadow::clear() {
  records_.clear();
  splits_.clear();
  free_splits_.clear();
  sets_.clear();
  joins_.clear();
  recent_joins_.clear();
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
  if (((entry & kFlag) != 0 ? entry : entry >> 5) == known) return true;
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
  const std::uint32_t before = set ? reads : reads >> 5;
  if (before == 0 || before == touch.record) return 0;
  if (!set && judge.past(records_[before])) return 0;
  const std::uint64_t key = std::uint64_t{before} << 32 | touch.record;
  if (recent_joins_.empty()) recent_joins_.resize(kRecentJoins);
  Joined& recent = recent_joins_[(before * 31u + touch.record) % kRecentJoins];
  if (recent.key == key) return recent.after;
  if (const auto found = joins_.find(key); found != joins_.end()) {
    recent = {key, found->second};
    return found->second;
  }
  if (set && sets_[reads & ~kFlag].size() == kMostReaders) {
    const std::vector<std::uint32_t>& full = sets_[reads & ~kFlag];
    if (std::none_of(full.begin(), full.end(),
                     [&](std::uint32_t number) { return judge.past(records_[number]); })) {
      recent = {key, reads};
      return reads;
    }
  }
  std::vector<std::uint32_t> readers = set ? sets_[reads & ~kFlag] : std::vector{before};
  std::erase_if(readers, [&](std::uint32_t number) { return judge.past(records_[number]); });
  std::uint32_t after = 0;
  if (!readers.empty()) {
    const auto at = std::lower_bound(readers.begin(), readers.end(), touch.record);
    if (at == readers.end() || *at != touch.record) readers.insert(at, touch.record);
    if (set && readers == sets_[reads & ~kFlag]) {
      after = reads;
    } else {
      after = kFlag | static_cast<std::uint32_t>(sets_.size());
      sets_.push_back(std::move(readers));
    }
  }
  joins_.emplace(key, after);
  recent = {key, after};
  return after;
}

// What the cell becomes. By value: a cell that was written in halves and read whole would stall the
// processor.
Shadow::Cell Shadow::touched(const Cell cell, Touch& touch, Judge& judge) {
  const std::uint32_t alone = touch.record << 5 | touch.lane;
  if (cell.write >> 5 != touch.known_write) check(cell.write, true, touch.known_write, judge);
  if (touch.writes) {
    if (cell.read != 0) check_reads(cell.read, touch.known_read, judge);
    return {alone, 0};
  }
  // Lone readers differ by lane, and their successors do not.
  const std::uint32_t before = (cell.read & kFlag) != 0 ? cell.read : cell.read >> 5;
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

void Shadow::touch_rest(Cell* cells, std::size_t done, std::size_t count, Touch& touch, Judge& judge) {
  if (touch.cell_lane != touch.lane) touch.before = {kFlag, kFlag}, touch.cell_lane = touch.lane;
  for (std::size_t i = done; i < count;) {
    const Cell before = touch.before, after = touch.after;
    for (; i + 4 <= count && alike(cells + i, before); i += 4) std::fill_n(cells + i, 4, after);
    if (i == count) return;
    Cell& cell = cells[i];
    const Cell found = cell;
    judge.word = i++;
    if (found == before) {
      cell = after;
    } else if ((found.write & kFlag) != 0) {
      touch_split(cell, 0xfu, touch, judge);
    } else {
      const Cell next = touched(found, touch, judge);
      cell = next;
      if (!judge.each_word) touch.before = found, touch.after = next;
      judge.each_word = false;
    }
  }
}

void Shadow::touch_bytes(Cell& cell, unsigned bytes, Touch& touch, Judge& judge) {
  judge.word = 0;
  touch_split(cell, bytes, touch, judge);
}

}  // namespace sglab::emu::races
