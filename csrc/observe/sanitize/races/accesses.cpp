#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "isa/aperture.hpp"
#include "observe/sanitize/races/detector.hpp"

namespace sglab::emu::races {
namespace {

// A lane's bytes, mostly.
void copy_few(std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes) {
  switch (bytes) {
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

// Of an address, in its block.
std::uint32_t word_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address / 4 % Shadow::kBlockWords);
}

// Whole blocks, mostly few.
void copy_blocks(std::uint8_t* to, const std::uint8_t* from, std::uint32_t blocks) {
  for (std::uint32_t i = 0; i < blocks; ++i)
    std::memcpy(to + std::size_t{i} * Shadow::kBlockBytes, from + std::size_t{i} * Shadow::kBlockBytes,
                Shadow::kBlockBytes);
}

}  // namespace

RaceDetector::RaceDetector(Findings& findings, std::shared_ptr<GridHistory> history)
    : Detector(findings),
      history_(history == nullptr ? std::make_shared<GridHistory>() : std::move(history)) {}

void RaceDetector::launched(const Launch&) {
  clusters_.clear();
  last_ = nullptr;
  memory_ = history_->begin();
  left_.clear();
}

void RaceDetector::cluster_started(const Cluster& cluster) {
  clusters_[cluster.index] = std::make_unique<ClusterRaces>(cluster, memory_->spare);
  last_ = nullptr;
}

void RaceDetector::cluster_finished(const Cluster& cluster) {
  clusters_.erase(cluster.index);
  last_ = nullptr;
}

Record RaceDetector::record_of(const Actor& actor, const Strand& strand) const {
  const Warp& warp = *actor.warp;
  Record record;
  record.position = actor.position;
  record.cluster = warp.cluster->index;
  record.slot = record.issue_slot = strand.slot;
  record.clock = record.issue_clock = strand.clock;
  record.pc = static_cast<std::uint32_t>(actor.inst - warp.code);
  record.lanes = actor.lanes;
  record.cta = static_cast<std::uint32_t>(linear_index(*warp.cta));
  record.warp = static_cast<std::uint16_t>(warp.index);
  return record;
}

void RaceDetector::accessed(const Actor& actor, const Access& access) {
  if (access.space != Space::kGlobal && access.space != Space::kShared) return;
  ClusterRaces& cluster = state(actor);
  Shadow& shadow = access.space == Space::kGlobal ? memory_->global : cluster.shared;
  const bool strong = access.atomic || access.order != Order::kWeak;
  cluster.threads.each_part(*actor.warp, access.lanes, [&](Strand& strand, std::uint32_t lanes) {
    cluster.threads.tick(strand);
    strand.accessed = strand.clock;
    Record record = record_of(actor, strand);
    record.lanes = access.together ? actor.lanes : lanes;
    record.together = access.together;
    record.strong = strong;
    // tcgen05.alloc: "same-address ordering with respect to non-tcgen05 instructions", of any proxy.
    record.async_proxy = actor.inst->kind == InstClass::kTensorMemory;
    record.scope = access.order == Order::kVolatile ? Scope::kSys : access.scope;
    record.spread = access.bytes < Shadow::kBlockBytes ? Shadow::kBlockBytes / access.bytes : 0;
    const View* const view = strand.view.get();
    Judgement judgement(findings, actor, record, {&view, 1});
    judgement.met = strand.met;
    judgement.writes = access.writes;
    judgement.stores = access.writes && !access.atomic;
    Shadow::Touch touch{.record = shadow.enter(record), .writes = access.writes};
    touch_lanes(cluster, judgement, touch, access, lanes);
    if (access.space == Space::kShared)
      visit(cluster, actor, access.address[std::countr_zero(lanes)], record);
  });
  if (strong) synchronise(actor, access);
}

void RaceDetector::map_used(const Actor& actor, const Access& access) {
  ClusterRaces& cluster = state(actor);
  cluster.threads.each_part(*actor.warp, access.lanes, [&](Strand& strand, std::uint32_t lanes) {
    cluster.threads.tick(strand);
    const View* const view = strand.view.get();
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
      Record record = record_of(actor, strand);
      record.lanes = 1u << lane;
      Judgement judgement(findings, actor, record, {&view, 1});
      judgement.reads_map = true;
      judgement.map = access.address[lane];
      judgement.lane = lane;
      Shadow::Touch touch{.record = memory_->global.enter(record), .lane = lane};
      touch_bytes(cluster, judgement, touch, {Space::kGlobal, access.address[lane], access.bytes});
    }
  });
}

namespace {

// Those of `lanes` after which another of them reads the same.
std::uint32_t read_again(const Access& access, std::uint32_t lanes) {
  const std::uint32_t following = access.following & lanes & lanes << 1;
  std::uint32_t found = 0;
  for (std::uint32_t rest = lanes & ~(following >> 1); rest != 0; rest &= rest - 1) {
    const std::uint32_t lane = rest & (0u - rest), after = lanes & ~(lane | (lane - 1));
    if (after != 0 && access.address[std::countr_zero(after)] == access.address[std::countr_zero(rest)])
      found |= lane;
  }
  return found;
}

// Whether they all read the same.
bool alike(const Access& access, std::uint32_t lanes) {
  if (access.following != 0 || lanes != 0xffffffffu) return false;
  std::uint64_t differing = 0;
  for (std::uint32_t lane = 1; lane < 32; ++lane) differing |= access.address[lane] ^ access.address[0];
  return differing == 0;
}

}  // namespace

// Lanes that write one word together count as the first of them; those that read the same as the last, since
// it is mostly a first lane that then continues alone.
void RaceDetector::touch_lanes(ClusterRaces& cluster, Judgement& judgement, Shadow::Touch& touch,
                               const Access& access, std::uint32_t lanes) {
  constexpr std::uint32_t kBytes = Shadow::kBlockBytes;
  std::uint32_t rest = lanes;
  if (!access.writes) rest = alike(access, lanes) ? 0x80000000u : lanes & ~read_again(access, lanes);
  // Blocks are 2^in_block lanes each.
  const bool in_blocks = !access.together && std::has_single_bit(access.bytes) && access.bytes <= kBytes;
  const auto in_block = in_blocks ? static_cast<unsigned>(std::countr_zero(kBytes / access.bytes)) : 0u;
  unsigned tries = in_blocks ? 2 : 0;  // where blocks must be judged, it is mostly lane by lane
  const bool global = access.space == Space::kGlobal;
  while (rest != 0) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t count = access.row(rest), blocks = count >> in_block;
    const std::uint64_t address = access.address[lane];
    if (tries != 0 && blocks != 0 && address % kBytes == 0) {
      const std::uint32_t touched =
          global ? touch_global_row(judgement, touch, address, lane, 1u << in_block, blocks)
                 : touch_shared_row(cluster, judgement, touch, address, lane, 1u << in_block, blocks);
      if (touched != 0) {
        rest = Access::after(rest, touched << in_block);
        continue;
      }
      --tries;
    }
    // An element, or those that lie in one word.
    const std::uint32_t in_word = access.bytes < 4 ? 4 / access.bytes : 1;
    const bool together = in_word != 1 && address % 4 == 0 && count >= in_word;
    touch.lane = access.together ? 0 : lane;
    judgement.lane = access.together ? kNoLane : lane;
    touch_bytes(cluster, judgement, touch, {access.space, address, together ? 4 : access.bytes});
    rest = Access::after(rest, together ? in_word : 1);
  }
}

// Blocks side by side of which nothing has to be judged, as mostly, each of the lanes from `step` after those
// of the one before it on; of global memory those of the first one's page. How many were touched: 0 if
// something has to be judged.
std::uint32_t RaceDetector::touch_global_row(const Judgement& judgement, const Shadow::Touch& touch,
                                             std::uint64_t address, std::uint32_t lane, std::uint32_t step,
                                             std::uint32_t blocks) {
  constexpr std::uint32_t kBytes = Shadow::kBlockBytes;
  const auto offset = static_cast<std::uint32_t>(address % GlobalShadow::kPageBytes);
  blocks = std::min(blocks, (static_cast<std::uint32_t>(GlobalShadow::kPageBytes) - offset) / kBytes);
  GlobalShadow::Page& page = memory_->global.find(address);
  if (!Shadow::touch_settled(&page.cells[offset / kBytes], blocks, lane, step, touch)) return 0;
  if (judgement.stores)
    copy_blocks(page.overwritten(offset, blocks), reinterpret_cast<const std::uint8_t*>(address), blocks);
  return blocks;
}

std::uint32_t RaceDetector::touch_shared_row(ClusterRaces& cluster, const Judgement& judgement,
                                             const Shadow::Touch& touch, std::uint64_t address,
                                             std::uint32_t lane, std::uint32_t step, std::uint32_t blocks) {
  if (!Shadow::touch_settled(cluster.shared_cell(address), blocks, lane, step, touch)) return 0;
  if (judgement.stores) copy_blocks(cluster.shared_value(address), cluster.shared_byte(address), blocks);
  return blocks;
}

void RaceDetector::touch_bytes(ClusterRaces& cluster, Judgement& judgement, Shadow::Touch& touch,
                               const Range& range) {
  judgement.space = range.space;
  const bool global = range.space == Space::kGlobal;
  if (!global && (range.address | range.bytes) % 4 == 0) {
    judgement.address = range.address;
    std::uint8_t* const copy = judgement.stores ? written(cluster, judgement, range) : nullptr;
    cluster.shared.touch(cluster.shared_cell(range.address), word_of(range.address), range.bytes / 4, touch,
                         judgement);
    if (copy != nullptr) copy_few(copy, judgement.now, range.bytes);
    return;
  }
  Shadow& shadow = global ? memory_->global : cluster.shared;
  std::uint64_t begin = range.address;
  const std::uint64_t end = begin + range.bytes;
  while (begin < end) {
    const std::uint64_t word = begin / 4;
    Shadow::Cell* const block =
        global ? &memory_->global.find(begin).cells[begin % GlobalShadow::kPageBytes / Shadow::kBlockBytes]
               : cluster.shared_cell(begin);
    judgement.address = begin;
    std::uint64_t stop = std::min(end, 4 * word + 4);
    const bool part = begin % 4 != 0 || stop - begin < 4;
    if (!part) {
      stop = end / 4 * 4;
      if (global) stop = std::min(stop, (begin / GlobalShadow::kPageBytes + 1) * GlobalShadow::kPageBytes);
    }
    const auto span = static_cast<std::uint32_t>(stop - begin);
    std::uint8_t* const copy =
        judgement.stores ? written(cluster, judgement, {range.space, begin, span}) : nullptr;
    if (part) {
      judgement.span = span;
      const unsigned bytes = (1u << (stop - 4 * word)) - (1u << (begin - 4 * word));
      shadow.touch_bytes(*block, word_of(begin), bytes, touch, judgement);
      judgement.span = 4;
    } else {
      shadow.touch(block, word_of(begin), span / 4, touch, judgement);
    }
    if (copy != nullptr) copy_few(copy, judgement.now, span);
    begin = stop;
  }
}

// Where the copy of what threads have written is; lets the judgement compare.
std::uint8_t* RaceDetector::written(ClusterRaces& cluster, Judgement& judgement, const Range& range) {
  std::uint8_t* copy;
  if (range.space == Space::kGlobal) {
    judgement.now = reinterpret_cast<const std::uint8_t*>(range.address);
    copy = memory_->global.find(range.address).written(range.address % GlobalShadow::kPageBytes, range.bytes);
  } else {
    judgement.now = cluster.shared_byte(range.address);
    copy = cluster.shared_value(range.address);
  }
  judgement.then = copy;
  return copy;
}

void RaceDetector::touch_tensor(ClusterRaces& cluster, Judgement& judgement, Shadow::Touch& touch,
                                const TmemRange& range) {
  judgement.space = Space::kReg;
  std::vector<Shadow::Cell>& cells = cluster.tensor_of(range.rank);
  constexpr std::uint32_t kLanes = ClusterRaces::kTensorLanes, kColumns = ClusterRaces::kTensorColumns;
  const std::uint32_t columns = std::min(range.columns, kColumns - std::min(range.column, kColumns));
  for (std::uint32_t part = range.lane / kLanes;
       part * kLanes < range.lane + range.lanes && part < 128 / kLanes; ++part) {
    judgement.address = std::uint64_t{range.rank} << 32 | part * kLanes << 16 | range.column;
    const std::uint32_t word = part * kColumns + range.column;
    cluster.tensor().touch(&cells[word / Shadow::kBlockWords], word % Shadow::kBlockWords, columns, touch,
                           judgement);
  }
}

}  // namespace sglab::emu::races
