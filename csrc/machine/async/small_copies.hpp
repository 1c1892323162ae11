#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "machine/async/operations.hpp"

namespace sglab::emu {

// The cp.async instructions of one warp that were issued and not carried out yet, in the order of issue, and
// the groups of its lanes. Every lane's copies are carried out in its own order.
class SmallCopies {
 public:
  bool empty() const { return first_ == records_.size(); }
  std::size_t size() const { return records_.size() - first_; }
  // Forgets everything, and keeps its memory.
  void clear() {
    records_.clear();
    first_ = 0;
    groups_.fill(0);
    together_ = true;
  }
  // The oldest first; one without lanes is done.
  std::span<const SmallCopy> records() const { return std::span(records_).subspan(first_); }

  // A new record for the caller to fill; enter() follows.
  SmallCopy& append() { return records_.emplace_back(); }
  SmallCopy& newest() { return records_.back(); }
  // Puts the new record into its lanes' groups: lanes that have committed differently get records of their
  // own.
  void enter() {
    const std::uint32_t lanes = records_.back().mask;
    if (together_) {
      records_.back().group = groups_[0];
      return;
    }
    for (std::uint32_t rest = lanes;;) {
      SmallCopy& copy = records_.back();
      copy.group = groups_[static_cast<std::size_t>(std::countr_zero(rest))];
      copy.mask = lanes_in(copy.group) & lanes;
      rest &= ~copy.mask;
      if (rest == 0) return;
      records_.push_back(SmallCopy(copy));
    }
  }

  void commit_group(std::uint32_t lanes) {
    if (lanes == 0xffffffffu) {
      for (std::uint32_t& group : groups_) ++group;
      return;
    }
    together_ = together_ && lanes == 0;
    for (; lanes != 0; lanes &= lanes - 1) ++groups_[static_cast<std::size_t>(std::countr_zero(lanes))];
  }

  // Carries out what these lanes issued, except the `pending` newest groups; perform(copy, lanes).
  template <typename Perform>
  void wait_group(std::uint32_t lanes, std::uint32_t pending, Perform perform) {
    for (std::size_t i = first_; i < records_.size(); ++i) {
      const std::uint32_t now = records_[i].mask & lanes;
      if (now == 0) continue;
      const std::uint32_t committed = groups_[static_cast<std::size_t>(std::countr_zero(now))];
      if (std::uint64_t{records_[i].group} + pending < committed) run(records_[i], now, perform);
    }
    drop_done();
  }

  // The same, with copies that are in no group yet.
  template <typename Perform>
  void wait_all(std::uint32_t lanes, Perform perform) {
    for (std::size_t i = first_; i < records_.size(); ++i) {
      if ((records_[i].mask & lanes) != 0) run(records_[i], records_[i].mask & lanes, perform);
    }
    drop_done();
  }

  // Carries out the oldest record.
  template <typename Perform>
  void run_oldest(Perform perform) {
    run(records_[first_], records_[first_].mask, perform);
    drop_done();
  }

  // Carries out the oldest arrival on this mbarrier and what its lanes issued before. False: there is none.
  template <typename Perform>
  bool run_arrival(std::uint32_t mbarrier, Perform perform) {
    for (std::size_t i = first_; i < records_.size(); ++i) {
      if (records_[i].bytes != 0 || !signals(records_[i], mbarrier)) continue;
      const std::uint32_t lanes = records_[i].mask;
      for (std::size_t j = first_; j <= i; ++j) {
        if ((records_[j].mask & lanes) != 0) run(records_[j], records_[j].mask & lanes, perform);
      }
      drop_done();
      return true;
    }
    return false;
  }

 private:
  std::uint32_t lanes_in(std::uint32_t group) const {
    std::uint32_t lanes = 0;
    for (std::size_t lane = 0; lane < 32; ++lane) {
      lanes |= static_cast<std::uint32_t>(groups_[lane] == group) << lane;
    }
    return lanes;
  }

  static bool signals(const SmallCopy& copy, std::uint32_t mbarrier) {
    for (std::uint32_t rest = copy.mask; rest != 0; rest &= rest - 1) {
      if (copy.shared[static_cast<std::size_t>(std::countr_zero(rest))] == mbarrier) return true;
    }
    return false;
  }

  template <typename Perform>
  static void run(SmallCopy& copy, std::uint32_t lanes, Perform& perform) {
    copy.mask &= ~lanes;
    perform(copy, lanes);
  }

  // Records without lanes left go once they are the oldest; memory is moved up when that is not much, and
  // before it leaves the caches.
  void drop_done() {
    while (first_ < records_.size() && records_[first_].mask == 0) ++first_;
    if (first_ == records_.size() || (first_ >= 32 && 2 * first_ >= records_.size())) {
      records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }

  std::vector<SmallCopy> records_;
  std::size_t first_ = 0;
  std::array<std::uint32_t, 32> groups_{};  // committed, by lane
  bool together_ = true;                    // all lanes have committed as many
};

}  // namespace sglab::emu
