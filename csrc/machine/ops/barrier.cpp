#include <bit>

#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/launch.hpp"
#include "machine/engine/registers.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"

// Named barriers of a CTA and the barrier of a cluster.
namespace sglab::emu {
namespace {

std::uint32_t lane_value(const Warp& w, Ref ref) {
  return lanes32(w, ref)[std::countr_zero(w.mask)];
}

// Inst::a: the barrier. Inst::b: how many threads, unless Inst::imm has kNoCount. Inst::c: bar.red's
// predicate.
enum Mode : std::int64_t {
  kNoCount = 1,
  kAndOp = 2,
  kOrOp = 4,
  kPopc = 8,
  kReductions = kAndOp | kOrOp | kPopc
};

NamedBarrier& barrier(const Warp& w, const Inst* i, std::uint32_t number) {
  if (number >= 16)
    raise_fault(w, i, std::countr_zero(w.mask), "barrier", "there is no barrier " + std::to_string(number));
  return w.cta->barriers[number];
}

// Counts threads in whole warps: with its last live lanes a warp brings the lanes it lacks.
void arrive(Warp& w, const Inst* i, std::uint32_t number) {
  NamedBarrier& b = barrier(w, i, number);
  const bool counted = !(i->imm & kNoCount);
  const std::uint32_t expected = counted ? lane_value(w, i->b) : 0;
  if (counted && (expected == 0 || expected % 32 != 0)) {
    raise_fault(w, i, std::countr_zero(w.mask), "barrier",
                "a barrier needs a multiple of 32 threads, not " + std::to_string(expected));
  }
  if (b.lanes.empty()) b.lanes.assign(w.cta->warp_count, 0);
  if (b.arrived != 0 && b.expected != expected) {
    raise_fault(w, i, std::countr_zero(w.mask), "barrier",
                "barrier " + std::to_string(number) + " is in use for " + std::to_string(b.expected) +
                    " threads, not " + std::to_string(expected));
  }
  b.expected = expected;
  b.arrived += static_cast<std::uint32_t>(std::popcount(w.mask));
  b.lanes[w.index] |= w.mask;
  b.users |= 1u << w.index;
  if (counted && (w.live & ~b.lanes[w.index]) == 0)
    b.arrived += 32u - static_cast<std::uint32_t>(std::popcount(w.live));
  ++w.cluster->events;
  const std::uint32_t wanted = counted ? expected : w.cta->live_lanes;
  w.cluster->launch->observers.notify(
      [&](Observer& o) { o.barrier_changed(*w.cta, BarrierKind::kNamed, number, b.arrived, wanted); });
  if (b.arrived < wanted) return;
  if (counted && b.arrived > wanted) {
    raise_fault(w, i, std::countr_zero(w.mask), "barrier",
                std::to_string(b.arrived) + " threads arrived at barrier " + std::to_string(number) +
                    ", which expects " + std::to_string(wanted));
  }
  complete_barrier(*w.cta, number);
}

const Inst* bar_sync(Warp& w, const Inst* i) {
  Group& g = w.current();
  if (g.arrived) {
    const auto number = static_cast<std::uint32_t>(g.key);
    if (w.cta->barriers[number].phase == g.ticket) return block(w, i, Wait::kBarrier, number);
    g.arrived = false;
    return i + 1;
  }
  const std::uint32_t number = lane_value(w, i->a);
  const std::uint64_t ticket = barrier(w, i, number).phase;
  arrive(w, i, number);
  if (w.cta->barriers[number].phase != ticket) return i + 1;
  const Inst* const next = block(w, i, Wait::kBarrier, number);
  Group& waiting = w.current();
  waiting.arrived = true;
  waiting.ticket = ticket;
  return next;
}

const Inst* bar_arrive(Warp& w, const Inst* i) {
  arrive(w, i, lane_value(w, i->a));
  return i + 1;
}

const Inst* finish_reduction(Warp& w, const Inst* i, std::uint32_t number) {
  const NamedBarrier& b = w.cta->barriers[number];
  if (i->imm & kPopc) {
    auto* const d = write32(w, i->d);
    for (std::uint32_t m = w.mask; m != 0; m &= m - 1) d[std::countr_zero(m)] = b.result;
  } else {
    const bool holds = i->imm & kAndOp ? b.result == b.result_voters : b.result != 0;
    w.predicates[i->d] = (w.predicates[i->d] & ~w.mask) | (holds ? w.mask : 0);
  }
  return i + 1;
}

const Inst* bar_red(Warp& w, const Inst* i) {
  Group& g = w.current();
  if (g.arrived) {
    const auto number = static_cast<std::uint32_t>(g.key);
    if (w.cta->barriers[number].phase == g.ticket) return block(w, i, Wait::kBarrier, number);
    g.arrived = false;
    return finish_reduction(w, i, number);
  }
  const std::uint32_t number = lane_value(w, i->a);
  NamedBarrier& b = barrier(w, i, number);
  const std::uint64_t ticket = b.phase;
  const std::uint32_t p = predicate_lanes(w, i->c);
  b.votes += static_cast<std::uint32_t>(std::popcount(p & w.mask));
  b.voters += static_cast<std::uint32_t>(std::popcount(w.mask));
  arrive(w, i, number);
  if (b.phase != ticket) return finish_reduction(w, i, number);
  const Inst* const next = block(w, i, Wait::kBarrier, number);
  Group& waiting = w.current();
  waiting.arrived = true;
  waiting.ticket = ticket;
  return next;
}

void read_barrier(Builder& b, unsigned at, unsigned operands) {
  b.use(Field::kA, b.operand(at), 'w');
  if (operands > at + 1) {
    b.use(Field::kB, b.operand(at + 1), 'w');
  } else {
    b.inst.imm |= kNoCount;
  }
}

void build_bar(Builder& b) {
  b.expect_count(1, 2);
  read_barrier(b, 0, b.count());
}

void build_red(Builder& b) {
  b.expect_count(3, 4);
  b.inst.imm = b.has("and") ? kAndOp : b.has("or") ? kOrOp : kPopc;
  read_barrier(b, 1, b.count() - 1);
  b.use(Field::kC, b.operand(b.count() - 1), 'p');
  b.def(Field::kD, b.operand(0), b.has("popc") ? 'w' : 'p');
}

const Inst* cluster_arrive(Warp& w, const Inst* i) {
  Cluster& cluster = *w.cluster;
  w.cluster_ticket = cluster.barrier.phase;
  cluster.barrier.arrived += static_cast<std::uint32_t>(std::popcount(w.mask));
  ++cluster.events;
  cluster.launch->observers.notify([&](Observer& o) {
    o.barrier_changed(cluster.ctas[0], BarrierKind::kCluster, 0, cluster.barrier.arrived, cluster.live_lanes);
  });
  if (cluster.barrier.arrived >= cluster.live_lanes) complete_cluster_barrier(cluster);
  return i + 1;
}

const Inst* cluster_wait(Warp& w, const Inst* i) {
  if (w.cluster->barrier.phase != w.cluster_ticket) return i + 1;
  return block(w, i, Wait::kClusterBarrier, 0);
}

void build_plain(Builder& b) {
  b.expect_count(0, 0);
}

}  // namespace

void register_barriers(Table& t) {
  t.family("Barriers", InstClass::kBarrier);
  t.row("bar[.cta].sync", does::waits_at_barrier(), build_bar, bar_sync);
  t.row("barrier[.cta].sync[.aligned]", does::waits_at_barrier(), build_bar, bar_sync);
  t.row("bar[.cta].arrive", does::arrives_at_barrier(), build_bar, bar_arrive);
  t.row("barrier[.cta].arrive[.aligned]", does::arrives_at_barrier(), build_bar, bar_arrive);
  t.row("bar[.cta].red.{and|or}.pred", does::waits_at_barrier(), build_red, bar_red);
  t.row("bar[.cta].red.popc.u32", does::waits_at_barrier(), build_red, bar_red);
  t.row("barrier[.cta].red.popc[.aligned].u32", does::waits_at_barrier(), build_red, bar_red);
  t.row("barrier[.cta].red.{and|or}[.aligned].pred", does::waits_at_barrier(), build_red, bar_red);
  t.row("barrier.cluster.arrive[.release|.relaxed][.aligned]", does::arrives_at_cluster(), build_plain,
        cluster_arrive);
  t.row("barrier.cluster.wait[.acquire][.aligned]", does::waits_for_cluster(), build_plain, cluster_wait);
}

}  // namespace sglab::emu
