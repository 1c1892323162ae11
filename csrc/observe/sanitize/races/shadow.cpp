#include "observe/sanitize/races/shadow.hpp"

#include <algorithm>

namespace sglab::emu::races {

void Shadow::clear() {
  records_.clear();
  parts_.clear();
  free_parts_.clear();
  sets_.clear();
  joins_.clear();
  joined_ = 0;
  recent_full_.fill(0);
  recent_strange_.fill({});
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
  const std::uint64_t cluster = records_[touch.record].cluster;
  Strange& strange = recent_strange_[before % recent_strange_.size()];
  if (strange.set == before && strange.cluster == cluster && judge.alone()) return reads;
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
      if (std::none_of(old.begin(), old.end(),
                       [&](std::uint32_t number) { return records_[number].cluster == cluster; }))
        strange = {cluster, before};
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

std::uint32_t Shadow::keep(const Parts& parts) {
  if (free_parts_.empty()) {
    parts_.push_back(parts);
    return static_cast<std::uint32_t>(parts_.size() - 1);
  }
  const std::uint32_t index = free_parts_.back();
  free_parts_.pop_back();
  parts_[index] = parts;
  return index;
}

void Shadow::touch_split(Cell& cell, unsigned bytes, Touch& touch, Judge& judge) {
  if ((cell.write & kFlag) == 0) cell = {kFlag | keep({cell, cell, cell, cell}), 0};
  const std::uint32_t index = cell.write & ~kFlag;
  for (unsigned byte = 0; byte < 4; ++byte) {
    Cell& one = parts_[index][byte];
    if (bytes >> byte & 1u) one = touched(one, touch, judge);
  }
  if (bytes != 0xfu || !touch.writes) return;
  cell = parts_[index][0];
  free_parts_.push_back(index);
}

// Of a block without parts.
Shadow::Parts Shadow::words_of(const Cell& block) const {
  Parts words;
  for (std::uint32_t i = 0; i < kBlockWords; ++i)
    words[i] = {block.write + lanes_before(block.write, i), block.read + lanes_before(block.read, i)};
  return words;
}

// The one cell that says the same, if there is one.
bool Shadow::gather(const Parts& words, Cell& block) const {
  const Cell first = words[0];
  if ((first.write & kFlag) != 0) return false;
  for (const std::uint32_t entry : {first.write, first.read}) {
    if ((entry & 31u) + lanes_before(entry, kBlockWords - 1) > 31) return false;
  }
  for (std::uint32_t i = 1; i < kBlockWords; ++i) {
    if (words[i].write != first.write + lanes_before(first.write, i) ||
        words[i].read != first.read + lanes_before(first.read, i))
      return false;
  }
  block = first;
  return true;
}

// The words of a block that has no parts have become these.
void Shadow::put(Cell& block, const Parts& words) {
  if (!gather(words, block)) block = {kFlag | keep(words), 0};
}

// Calls f(word) for words of a block that has parts already. Whatever f does to other parts, these stay.
template <class F>
void Shadow::for_words_apart(Cell& block, std::uint32_t first, std::size_t count, F f) {
  const std::uint32_t index = block.write & ~kFlag;
  for (std::uint32_t i = first; i < first + count; ++i) {
    Cell word = parts_[index][i];
    f(word);
    set(parts_[index][i], number_of(word));
  }
  if (gather(parts_[index], block)) free_parts_.push_back(index);
}

// What its first word becomes, the others do as well, unless it depends on the lane or the word.
void Shadow::touch_block(Cell& block, std::size_t done, Touch& touch, Judge& judge) {
  if ((block.write & kFlag) != 0) return touch_part(block, 0, done, kBlockWords, touch, judge);
  const Cell before = block;
  const auto alike = [&](std::uint32_t entry, std::uint32_t known) {
    return readers_of(entry) == known || lanes_before(entry, kBlockWords - 1) == 0;
  };
  judge.word = done;
  judge.each_word = false;
  const Cell after = touched(before, touch, judge);
  if (!judge.each_word && alike(before.write, touch.known_write) &&
      (!touch.writes || alike(before.read, touch.known_read))) {
    const std::uint64_t became = number_of(after);
    set(block, became);
    touch.block = {number_of(before), became, touch.lane};
    return;
  }
  judge.each_word = false;
  Parts words = words_of(before);
  words[0] = after;
  touch_words(&words[1], done + 1, kBlockWords - 1, touch, judge);
  put(block, words);
}

void Shadow::touch_part(Cell& block, std::uint32_t first, std::size_t done, std::size_t count, Touch& touch,
                        Judge& judge) {
  if ((block.write & kFlag) != 0)
    return for_words_apart(block, first, count,
                           [&](Cell& word) { touch_words(&word, done++, 1, touch, judge); });
  Parts words = words_of(block);
  touch_words(&words[first], done, count, touch, judge);
  put(block, words);
}

// Words of one block, of which the access has touched `done` before.
void Shadow::touch_words(Cell* words, std::size_t done, std::size_t count, Touch& touch, Judge& judge) {
  for (std::size_t i = 0; i < count; ++i) {
    Cell& cell = words[i];
    const std::uint64_t found = number_of(cell);
    if (found == touch.word.before && touch.word.lane == touch.lane) {
      set(cell, touch.word.after);
      continue;
    }
    judge.word = done + i;
    const auto before = std::bit_cast<Cell>(found);
    if ((before.write & kFlag) != 0) {
      touch_split(cell, 0xfu, touch, judge);
    } else {
      const std::uint64_t became = number_of(touched(before, touch, judge));
      set(cell, became);
      if (!judge.each_word) touch.word = {found, became, touch.lane};
    }
    judge.each_word = false;
  }
}

void Shadow::touch_bytes(Cell& block, std::uint32_t word, unsigned bytes, Touch& touch, Judge& judge) {
  judge.word = 0;
  if ((block.write & kFlag) != 0) {
    for_words_apart(block, word, 1, [&](Cell& one) { touch_split(one, bytes, touch, judge); });
  } else {
    Parts words = words_of(block);
    touch_split(words[word], bytes, touch, judge);
    put(block, words);
  }
  judge.each_word = false;
}

bool Shadow::was_touched(const Cell& block, std::uint32_t begin, std::uint32_t end, bool written) const {
  const auto is = [&](const Cell& cell) { return cell.write != 0 || (!written && cell.read != 0); };
  if ((block.write & kFlag) == 0) return is(block);
  const Parts& words = parts_[block.write & ~kFlag];
  for (std::uint32_t byte = begin; byte < end; ++byte) {
    const Cell& word = words[byte / 4];
    if (is((word.write & kFlag) == 0 ? word : parts_[word.write & ~kFlag][byte % 4])) return true;
  }
  return false;
}

void Shadow::forget(Cell& block) {
  if ((block.write & kFlag) != 0) free_parts_.push_back(block.write & ~kFlag);
  block = {};
}

}  // namespace sglab::emu::races
