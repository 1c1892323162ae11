#include "machine/engine/cluster.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "isa/aperture.hpp"
#include "machine/engine/launch.hpp"

namespace sglab::emu {
namespace {

std::array<std::uint32_t, 3> unravel(std::uint64_t index, const std::array<std::uint32_t, 3>& extent) {
  return {static_cast<std::uint32_t>(index % extent[0]),
          static_cast<std::uint32_t>(index / extent[0] % extent[1]),
          static_cast<std::uint32_t>(index / extent[0] / extent[1])};
}

void reserve(AlignedBytes& memory, std::size_t bytes) {
  if (memory.size() < bytes)
    memory = AlignedBytes(bytes);
  else if (bytes != 0)
    std::memset(memory.data(), 0, bytes);
}

std::size_t written_stride(const Cluster& cluster) {
  return (std::size_t{cluster.shared_bytes} + 63) / 64 * 8;
}

void start_warp(Warp& w, Cluster& cluster, Cta& cta, std::uint32_t slot) {
  const Program& program = *cluster.program;
  w.bank[0] = cluster.register_memory.data() + std::size_t{slot} * program.register_bytes;
  w.bank[1] = program.constants.data();
  w.predicates = cluster.predicate_memory.data() + std::size_t{slot} * program.predicates;
  w.predicates[kTrueRef] = 0xffffffffu;
  w.local = cluster.local_memory.data() + std::size_t{slot} * 32 * program.local_bytes;
  w.code = program.code.data();
  w.program = &program;
  w.cta = &cta;
  w.cluster = &cluster;
  w.launch = cluster.launch;
  w.parameters = cluster.launch->config.parameters.data();
  w.shared_begin = std::uint64_t{cta.window} + program.first_shared();
  w.shared_end = std::uint64_t{cta.window} + cluster.shared_bytes;
  w.shared_base = reinterpret_cast<std::uint64_t>(cta.shared) - cta.window;
  w.allocation_begin = w.allocation_end = 0;
  w.index = slot - cta.first_warp;
  w.slot = slot;
  const std::uint32_t lanes = std::min(32u, cta.threads - 32 * w.index);
  w.live = w.mask = w.group_mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
  w.partial = w.group = w.turns = w.hold = w.carry = 0;
  w.retry = w.yield = w.hurry = false;
  w.group_count = 1;
  w.executed = w.cluster_ticket = 0;
  w.groups[0] = Group{};
  w.groups[0].mask = w.live;
  w.frames.clear();
  w.meetings.clear();
}

}  // namespace

void Cluster::start(Launch& owner, std::uint64_t number, Tally& tally) {
  launch = &owner;
  program = owner.program;
  profile = tally.profile.data();
  index = number;
  const LaunchConfig& config = owner.config;
  position = unravel(number, owner.clusters);
  const std::uint32_t cta_count = config.cluster[0] * config.cluster[1] * config.cluster[2];
  const std::uint32_t threads = config.block[0] * config.block[1] * config.block[2];
  const std::uint32_t warps_per_cta = (threads + 31) / 32;
  const std::uint32_t warp_count = cta_count * warps_per_cta;
  shared_bytes = program->dynamic_shared + config.dynamic_shared;
  const std::size_t shared_stride = (std::size_t{shared_bytes} + 1023) / 1024 * 1024;
  reserve(register_memory, std::size_t{warp_count} * program->register_bytes);
  reserve(shared_memory, cta_count * shared_stride + 1024);
  reserve(local_memory, std::size_t{warp_count} * 32 * program->local_bytes);
  predicate_memory.assign(std::size_t{warp_count} * program->predicates, 0);
  ctas.resize(cta_count);
  warps.resize(warp_count);
  runnable.assign((warp_count + 63) / 64, 0);
  live_warps = warp_count;
  live_lanes = cta_count * threads;
  barrier = {};
  executed = charged = events = next_warp = victim = 0;
  victim_until = idle_events = idle_rounds = 0;
  relief_at = kReliefPeriod;
  started = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  random.seed(config.seed * 0x9e3779b97f4a7c15ull + number);
  for (std::uint32_t rank = 0; rank < cta_count; ++rank) {
    Cta& cta = ctas[rank];
    cta.cluster = this;
    cta.rank = rank;
    cta.in_cluster = unravel(rank, config.cluster);
    for (unsigned i = 0; i < 3; ++i) cta.index[i] = position[i] * config.cluster[i] + cta.in_cluster[i];
    cta.shared = shared_memory.data() + rank * shared_stride;
    cta.window = rank << kSharedRankShift;
    cta.first_warp = rank * warps_per_cta;
    cta.warp_count = warps_per_cta;
    cta.threads = cta.live_lanes = threads;
    for (NamedBarrier& named : cta.barriers) {
      named.arrived = named.expected = 0;
      named.phase = 0;
      named.lanes.clear();
    }
    for (std::uint32_t i = 0; i < warps_per_cta; ++i) {
      const std::uint32_t slot = cta.first_warp + i;
      start_warp(warps[slot], *this, cta, slot);
      warps[slot].visited = tally.visited.data() + slot * tally.words;
      set_runnable(warps[slot]);
    }
  }
  if (owner.follows_writers) follow_writes();
}

void Cluster::follow_writes() {
  reserve(shared_written, ctas.size() * written_stride(*this));
}

void Cluster::mark_written(std::uint64_t address, std::uint32_t bytes) {
  const std::uint64_t rank = address >> kSharedRankShift, offset = address & kSharedOffsetMask;
  if (rank >= ctas.size()) return;
  const std::uint64_t end = std::min<std::uint64_t>(offset + bytes, shared_bytes);
  std::uint8_t* const bits = shared_written.data() + rank * written_stride(*this);
  std::uint64_t at = offset;
  const auto mark = [&](std::uint64_t stop) {
    for (; at < stop; ++at) bits[at / 8] |= static_cast<std::uint8_t>(1u << (at % 8));
  };
  mark(std::min(end, (offset + 7) & ~std::uint64_t{7}));
  if (at + 8 <= end) {  // whole bytes of the map: a copied box is kilobytes
    std::memset(bits + at / 8, 0xFF, end / 8 - at / 8);
    at = end & ~std::uint64_t{7};
  }
  mark(end);
}

std::span<const std::uint8_t> Cluster::written(const Cta& cta) const {
  return {shared_written.data() + cta.rank * written_stride(*this), written_stride(*this)};
}

std::int64_t linear_index(const Cta& cta) {
  const auto& grid = cta.cluster->launch->config.grid;
  return cta.index[0] + std::int64_t{grid[0]} * (cta.index[1] + std::int64_t{grid[1]} * cta.index[2]);
}

void charge(Warp& warp, std::uint64_t bytes) {
  constexpr std::uint64_t kOrdinary = 1u << 16, kPerInstruction = 64;
  if (bytes < kOrdinary) return;
  warp.cluster->charged += bytes / kPerInstruction;
  warp.yield = true;
}

void set_runnable(const Warp& warp) {
  warp.cluster->runnable[warp.slot / 64] |= std::uint64_t{1} << (warp.slot % 64);
}

bool is_runnable(const Warp& warp) {
  return warp.cluster->runnable[warp.slot / 64] >> (warp.slot % 64) & 1;
}

void lanes_left(Warp& w) {
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    if (w.groups[i].wait == Wait::kWarp) w.groups[i].wait = Wait::kReady;
  }
  Cluster& cluster = *w.cluster;
  Cta& cta = *w.cta;
  std::uint32_t cta_live = 0, cluster_live = 0;
  for (const Warp& other : cluster.warps) {
    const auto lanes = static_cast<std::uint32_t>(std::popcount(other.live));
    cluster_live += lanes;
    if (other.cta == &cta) cta_live += lanes;
  }
  cta.live_lanes = cta_live;
  cluster.live_lanes = cluster_live;
  if (w.live == 0) --cluster.live_warps;
  ++cluster.events;
  for (std::uint32_t number = 0; number < 16; ++number) {
    const NamedBarrier& named = cta.barriers[number];
    if (named.arrived != 0 && named.expected == 0 && named.arrived >= cta.live_lanes)
      complete_barrier(cta, number);
  }
  if (cluster.barrier.arrived != 0 && cluster.barrier.arrived >= cluster.live_lanes)
    complete_cluster_barrier(cluster);
}

void complete_barrier(Cta& cta, std::uint32_t number) {
  NamedBarrier& b = cta.barriers[number];
  const Observers& observers = cta.cluster->launch->observers;
  observers.notify([&](Observer& o) { o.barrier_completed(cta, BarrierKind::kNamed, number, b.phase); });
  ++b.phase;
  ++cta.cluster->events;
  b.arrived = b.expected = 0;
  observers.notify([&](Observer& o) { o.barrier_changed(cta, BarrierKind::kNamed, number, 0, 0); });
  b.result = b.votes;
  b.result_voters = b.voters;
  b.votes = b.voters = 0;
  b.lanes.assign(b.lanes.size(), 0);
  for (std::uint32_t k = 0; k < cta.warp_count; ++k)
    wake(cta.cluster->warps[cta.first_warp + k], Wait::kBarrier, number);
}

void complete_cluster_barrier(Cluster& cluster) {
  const Observers& observers = cluster.launch->observers;
  observers.notify([&](Observer& o) {
    o.barrier_completed(cluster.ctas[0], BarrierKind::kCluster, 0, cluster.barrier.phase);
  });
  ++cluster.barrier.phase;
  ++cluster.events;
  cluster.barrier.arrived = 0;
  observers.notify([&](Observer& o) { o.barrier_changed(cluster.ctas[0], BarrierKind::kCluster, 0, 0, 0); });
  for (Warp& w : cluster.warps) wake(w, Wait::kClusterBarrier, 0);
}

std::string describe_wait(const Warp& w, const Group& g) {
  switch (g.wait) {
    case Wait::kReady:
      return "ready";
    case Wait::kWarp:
      return "for lanes " + hex(g.key & w.live) + " of its warp";
    case Wait::kBarrier: {
      const NamedBarrier& named = w.cta->barriers[g.key];
      return "at barrier " + std::to_string(g.key) + " (" + std::to_string(named.arrived) + " of " +
             std::to_string(named.expected != 0 ? named.expected : w.cta->live_lanes) +
             " threads have arrived)";
    }
    case Wait::kClusterBarrier:
      return "at the cluster barrier (" + std::to_string(w.cluster->barrier.arrived) + " of " +
             std::to_string(w.cluster->live_lanes) + " threads have arrived)";
    case Wait::kMbarrier:
      return "for the mbarrier at shared address " + hex(g.key);
    case Wait::kAsync:
      return "for its asynchronous operations";
    case Wait::kResource:
      return "for tensor memory or registers";
  }
  return {};
}

}  // namespace sglab::emu
