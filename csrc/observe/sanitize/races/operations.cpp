#include "machine/async/operations.hpp"

#include <algorithm>
#include <bit>

#include "isa/aperture.hpp"
#include "observe/sanitize/races/detector.hpp"

// Asynchronous operations: threads of their own from their issue to where their completion is observed.
namespace sglab::emu::races {
namespace {

using Kind = AsyncOp::Kind;
using Line = Threads::Line;

Role role_of(const AsyncOp& op) {
  switch (op.kind) {
    case Kind::kBulk:
      return op.grouped ? Role::kGroupedRead : Role::kCopy;
    case Kind::kCpAsync:
    case Kind::kArrival:
      return Role::kCpAsync;
    case Kind::kWgmma:
      return Role::kWgmma;
    default:
      return Role::kTensor;
  }
}

std::uint32_t first_lane_of(std::uint32_t lanes) {
  return static_cast<std::uint32_t>(std::countr_zero(lanes));
}

bool same_cells(const TmemRange& a, const TmemRange& b) {
  return a.rank == b.rank && a.lane == b.lane && a.lanes == b.lanes && a.column == b.column &&
         a.columns == b.columns;
}

std::vector<const View*, Pooled<const View*>> known_by(const Views& views) {
  std::vector<const View*, Pooled<const View*>> all;
  all.reserve(views.size());
  for (const ViewPtr& view : views) all.push_back(view.get());
  return all;
}

constexpr std::size_t kAhead = 8;  // ranges, while whose cells come from memory
constexpr std::uint64_t kWgmmaNumber = (std::uint64_t{1} << 48) - 1;

}  // namespace

void RaceDetector::issued(const Actor& actor, const AsyncOp& op) {
  ClusterRaces& cluster = state(actor);
  Threads& threads = cluster.threads;
  Issued& made = cluster.operations[op.id];
  const bool first = made.views.empty();
  if (first && op.kind == Kind::kWgmma) made.views.reserve(4), made.warps.reserve(4);
  threads.each(*actor.warp, actor.lanes, [&](Strand& strand) {
    // Products that follow each other are one line already; in a row they need no times of their own.
    const bool in_a_row = op.kind == Kind::kWgmma && strand.wgmma == strand.clock;
    if (!in_a_row) threads.tick(strand);
    if (op.kind == Kind::kWgmma) strand.wgmma = strand.clock;
    if (first && made.views.empty()) made.record = record_of(actor, strand);
    made.views.push_back(threads.publish(strand));
    made.warps.push_back(static_cast<std::uint8_t>(1u << actor.warp->index % 4));
  });
  made.record.role = role_of(op);
  made.record.async_proxy = op.proxy == Proxy::kAsync;
  place(threads, actor, op, made);
}

// Where the operation is among those that complete like it.
void RaceDetector::place(Threads& threads, const Actor& actor, const AsyncOp& op, Issued& made) {
  const Warp& warp = *actor.warp;
  const std::uint32_t lane = first_lane_of(actor.lanes);
  // What has completed when the signal comes.
  const auto after = [&](Line line, std::uint32_t at) {
    const Channel* const channel = threads.find_channel(line, warp, at);
    if (channel == nullptr) return;
    for (ViewPtr& view : made.views) {
      auto more = make_pooled<View>(*view);
      more->seen.raise(channel->slot, channel->count);
      view = std::move(more);
    }
  };
  const auto next = [&](Line line, std::uint32_t at) {
    Channel& channel = threads.channel(line, warp, at);
    made.record.slot = channel.slot;
    made.write_slot = channel.slot;
    made.record.clock = ++channel.count;
    return channel.second_slot;
  };
  made.signals = op.signalled != 0 ? static_cast<std::uint32_t>(std::popcount(op.signalled)) : 1;
  switch (op.kind) {
    case Kind::kBulk:
      if (op.grouped) made.write_slot = next(Line::kBulk, lane);
      return;
    case Kind::kCpAsync:
      made.signals = static_cast<std::uint32_t>(std::popcount(actor.lanes));
      next(Line::kCpAsync, 0);
      return;
    case Kind::kArrival:
      made.signals = static_cast<std::uint32_t>(std::popcount(actor.lanes));
      return after(Line::kCpAsync, 0);
    case Kind::kCommit:
      return after(Line::kTensor, lane);
    case Kind::kWgmma:
      made.record.slot = made.write_slot = threads.channel(Line::kWgmma, warp).slot;
      made.record.clock = static_cast<std::uint32_t>(op.id & kWgmmaNumber);
      threads.channel(Line::kWgmmaGroups, warp).count = made.record.clock;
      return;
    default:
      next(Line::kTensor, lane);
      return;
  }
}

void RaceDetector::performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) {
  ClusterRaces& cluster = state(actor);
  const auto found = cluster.operations.find(op.id);
  if (found == cluster.operations.end()) return;
  Issued& made = found->second;
  if (op.kind == Kind::kArrival) return;
  Actor issuer = actor;
  issuer.position = made.record.position;
  Record record = made.record;
  const auto views = known_by(made.views);
  const auto touch_all = [&](const std::vector<Range>& ranges, bool writes) {
    Judgement judgement(findings, issuer, record, views);
    judgement.writes = writes;
    judgement.threads = &cluster.threads;
    if (op.kind == Kind::kWgmma) judgement.issuers = made.warps;
    Shadow::Touch touch{.record = 0};
    std::uint64_t last = ~std::uint64_t{0};
    Shadow::Cell* cells = nullptr;  // of the shared memory that is being touched
    const std::size_t count = ranges.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Range& range = ranges[i];
      if (cells != nullptr && i + kAhead < count)
        __builtin_prefetch(cells + (ranges[i + kAhead].address & kSharedOffsetMask) / Shadow::kBlockBytes, 1);
      const std::uint64_t place = range.space == Space::kShared ? range.address >> kSharedRankShift : 0xffu;
      const std::uint64_t where = place << 8 | range.warps;
      if (where != last) {
        judgement.warps = range.warps;
        if (made.record.role == Role::kCopy) place_copy(cluster, op, range, record);
        if (range.space == Space::kShared) visit(cluster, actor, range.address, record);
        touch = {.record = (range.space == Space::kGlobal ? memory_->global : cluster.shared).enter(record),
                 .writes = writes};
        last = where;
        cells = range.space == Space::kShared ? cluster.shared_cell(place << kSharedRankShift) : nullptr;
      }
      if (!touch_settled(cells, range, touch)) touch_bytes(cluster, judgement, touch, range);
    }
  };
  touch_all(footprint.reads, false);
  record.slot = made.write_slot;
  if (record.role == Role::kGroupedRead) record.role = Role::kGroupedWrite;
  record.strong = footprint.atomic;
  record.scope = Scope::kGpu;
  touch_all(footprint.writes, true);
  record.strong = false;
  perform_tensor(cluster, issuer, made, footprint);
  // Signals of copies are still to come; lanes of a cp.async may be carried out one after the other.
  if (made.record.role == Role::kCopy) return;
  const auto done = op.kind == Kind::kCpAsync ? static_cast<std::uint32_t>(std::popcount(actor.lanes)) : 1u;
  made.signals -= std::min(made.signals, done);
  if (made.signals == 0) cluster.operations.erase(found);
}

// Whole blocks of which nothing has to be judged, as mostly. `cells`: of the shared memory, if it is there.
// False: nothing was touched.
bool RaceDetector::touch_settled(Shadow::Cell* cells, const Range& range, Shadow::Touch& touch) {
  if ((range.address | range.bytes) % Shadow::kBlockBytes != 0) return false;
  const std::size_t blocks = range.bytes / Shadow::kBlockBytes;
  if (cells != nullptr) {
    cells += (range.address & kSharedOffsetMask) / Shadow::kBlockBytes;
    return Shadow::touch_alike(cells, blocks, touch);
  }
  const std::uint64_t offset = range.address % GlobalShadow::kPageBytes;
  if (offset + range.bytes > GlobalShadow::kPageBytes) return false;
  cells = &memory_->global.find(range.address).cells[offset / Shadow::kBlockBytes];
  return Shadow::touch_alike(cells, blocks, touch);
}

// A copy completes with the phase of the mbarrier that it signals: that of the CTA it writes to or, for
// .cta_group::2, of that CTA's pair.
void RaceDetector::place_copy(ClusterRaces& cluster, const AsyncOp& op, const Range& range, Record& record) {
  std::uint32_t address = op.mbarrier;
  if (op.signalled != 0) {
    std::uint32_t rank = first_lane_of(op.signalled);
    if (range.space == Space::kShared) {
      rank = static_cast<std::uint32_t>(range.address >> kSharedRankShift);
      if ((op.signalled >> rank & 1u) == 0) rank ^= 1u;
    }
    address = rank << kSharedRankShift | (op.mbarrier & kSharedOffsetMask);
  }
  const MbarrierViews& object = cluster.mbarrier(address);
  record.slot = object.slot;
  record.clock = object.times;
}

void RaceDetector::perform_tensor(ClusterRaces& cluster, const Actor& actor, const Issued& op,
                                  const Footprint& footprint) {
  if (footprint.tmem_reads.empty() && footprint.tmem_writes.empty()) return;
  const std::uint32_t number = cluster.tensor().enter(op.record);
  const auto views = known_by(op.views);
  Judgement judgement(findings, actor, op.record, views);
  judgement.threads = &cluster.threads;
  for (const bool writes : {false, true}) {
    judgement.writes = writes;
    Shadow::Touch touch{.record = number, .writes = writes};
    for (const TmemRange& range : writes ? footprint.tmem_writes : footprint.tmem_reads) {
      // What is read to be written clashes with no more than the write does.
      const bool updated =
          !writes && std::any_of(footprint.tmem_writes.begin(), footprint.tmem_writes.end(),
                                 [&](const TmemRange& other) { return same_cells(range, other); });
      if (!updated) touch_tensor(cluster, judgement, touch, range);
    }
  }
}

void RaceDetector::committed(const Actor& actor, GroupKind group) {
  Threads& threads = state(actor).threads;
  if (group == GroupKind::kBulk) {
    for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
      Channel* const channel = threads.find_channel(Line::kBulk, *actor.warp, first_lane_of(rest));
      if (channel != nullptr) channel->groups.push_back(channel->count);
    }
    return;
  }
  const Line line = group == GroupKind::kCpAsync ? Line::kCpAsync : Line::kWgmmaGroups;
  Channel* const channel = threads.find_channel(line, *actor.warp);
  if (channel != nullptr) channel->groups.push_back(channel->count);
}

void RaceDetector::waited(const Actor& actor, GroupKind group, std::uint32_t pending, bool read_only) {
  Threads& threads = state(actor).threads;
  const auto complete = [&](Channel* channel, std::uint32_t slot, std::uint32_t second_slot,
                            std::uint32_t lanes) {
    if (channel == nullptr) return;
    std::uint32_t count = channel->count;
    if (pending != kWaitAll) {
      if (channel->groups.size() <= pending) return;
      count = channel->groups[channel->groups.size() - pending - 1];
    }
    threads.each_part(*actor.warp, lanes, [&](Strand& strand, std::uint32_t) {
      Clock& seen = threads.change(strand).seen;
      seen.raise(slot, count);
      seen.raise(second_slot, count);
    });
    if (read_only || pending == kWaitAll) return;
    const auto known = static_cast<std::ptrdiff_t>(channel->groups.size()),
               left = std::ptrdiff_t{pending} + 1;
    if (known > left)
      channel->groups.erase(channel->groups.begin(), channel->groups.begin() + (known - left));
  };
  threads.each(*actor.warp, actor.lanes, [](Strand&) {});
  if (group == GroupKind::kWgmma) {
    const std::uint32_t slot = threads.channel(Line::kWgmma, *actor.warp).slot;
    return complete(threads.find_channel(Line::kWgmmaGroups, *actor.warp), slot, slot, actor.lanes);
  }
  if (group == GroupKind::kCpAsync) {
    Channel* const channel = threads.find_channel(Line::kCpAsync, *actor.warp);
    if (channel != nullptr) complete(channel, channel->slot, channel->slot, actor.lanes);
    return;
  }
  for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
    Channel* const channel = threads.find_channel(Line::kBulk, *actor.warp, first_lane_of(rest));
    if (channel == nullptr) continue;
    complete(channel, channel->slot, read_only ? channel->slot : channel->second_slot, rest & (0u - rest));
  }
}

// tcgen05.ld and .st are asynchronous, too; the machine only happens to carry out loads immediately. A
// release is a use of all that is released.
void RaceDetector::tensor_memory(const Actor& actor, const TmemUse& use) {
  using Op = TmemUse::Op;
  if (use.op == Op::kAlloc || use.op == Op::kRelinquish) return;
  ClusterRaces& cluster = state(actor);
  Threads& threads = cluster.threads;
  std::vector<const View*> views;
  Record record;
  const Clock* found = nullptr;
  threads.each_part(*actor.warp, actor.lanes, [&](Strand& strand, std::uint32_t) {
    threads.tick(strand);
    if (views.empty()) record = record_of(actor, strand), found = &strand.tensor_found;
    views.push_back(strand.view.get());
  });
  if (use.op != Op::kDealloc) {
    record.role = use.op == Op::kLoad ? Role::kTensorLoad : Role::kTensorStore;
    Channel& channel =
        threads.channel(use.op == Op::kLoad ? Line::kTensorLoad : Line::kTensorStore, *actor.warp);
    record.slot = channel.slot;
    record.clock = ++channel.count;
  }
  Judgement judgement(findings, actor, record, views);
  judgement.tensor_found = found;
  judgement.writes = use.op != Op::kLoad;
  judgement.met = record.clock;
  Shadow::Touch touch{.record = cluster.tensor().enter(record), .writes = judgement.writes};
  touch_tensor(cluster, judgement, touch, use.range);
  if (use.op == Op::kDealloc) cluster.forget_tensor(use.range);
}

}  // namespace sglab::emu::races
