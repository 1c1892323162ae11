// clusterlaunchcontrol: a running cluster takes over the work of one that has not started.

#include <cstring>

#include "machine/async/engine.hpp"
#include "machine/engine/launch.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_families.hpp"
#include "machine/program/decoder.hpp"

namespace sglab::emu {
namespace {

// The opaque answer to a request, 16 bytes: the first CTA of the cluster taken over, and whether there is
// one.
using Answer = std::array<std::uint32_t, 4>;

Answer take_next(Launch& launch) {
  std::uint64_t number = launch.next.load();
  while (number < launch.cluster_total && !launch.next.compare_exchange_weak(number, number + 1)) {
  }
  if (number >= launch.cluster_total) return {};
  const auto& clusters = launch.clusters;
  const auto& size = launch.config.cluster;
  return {static_cast<std::uint32_t>(number % clusters[0]) * size[0],
          static_cast<std::uint32_t>(number / clusters[0] % clusters[1]) * size[1],
          static_cast<std::uint32_t>(number / clusters[0] / clusters[1]) * size[2], 1};
}

// try_cancel [answer], [mbarrier]: written to shared memory like st.async; with multicast to each CTA's own.
const Inst* try_cancel(Warp& w, const Inst* i) {
  AsyncEngine& engine = async_engine(w);
  const bool multicast = i->target != 0;
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    BulkOperation op;
    op.kind = BulkOperation::Kind::kStoreWords;
    op.issuer = {w.slot, lane, i};
    op.bytes = sizeof(Answer);
    const std::uint32_t place = shared_address(w, i, main_address(i), lane);
    const std::uint32_t mbarrier = shared_address(w, i, extra_address(i, *i->extra->mbarrier), lane);
    if (place % sizeof(Answer) != 0) {
      raise_fault(w, i, lane, "misaligned",
                  "the answer at shared address " + hex(place) + " is not aligned to 16 bytes");
    }
    op.words = take_next(*w.launch);
    const auto ctas = static_cast<std::uint32_t>(w.cluster->ctas.size());
    for (std::uint32_t rank = 0; rank < ctas; ++rank) {
      if (!multicast && rank != place >> kSharedRankShift) continue;
      op.shared = rank << kSharedRankShift | (place & kSharedOffsetMask);
      op.mbarrier = multicast ? rank << kSharedRankShift | (mbarrier & kSharedOffsetMask) : mbarrier;
      shared_bytes(w, i, lane, op.shared, op.bytes);
      engine.submit(op);
    }
  }
  return i + 1;
}

void build_try_cancel(Builder& b) {
  b.expect_count(2, 2);
  b.address(b.operand(0));
  b.extra().mbarrier = b.address_extra(b.operand(1));
  b.inst.target = b.has("multicast::cluster::all") ? 1 : 0;
  b.decoder().program().clusters_meet = true;  // who takes what depends on who is there first
}

const Answer* answers(const Warp& w, Ref ref) {
  return read_register<Answer>(w, ref);
}

const Inst* is_canceled(Warp& w, const Inst* i) {
  const Answer* const all = answers(w, i->a);
  std::uint32_t granted = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) granted |= (all[lane][3] != 0 ? 1u : 0u) << lane;
  w.predicates[i->d] = (w.predicates[i->d] & ~w.mask) | (granted & w.mask);
  return i + 1;
}

void build_is_canceled(Builder& b) {
  b.expect_count(2, 2);
  b.use(Field::kA, b.operand(1), 'x');
  b.def(Field::kD, b.operand(0), 'p');
}

// Inst::target: the first of the coordinates that Extra::refs take.
const Inst* first_ctaid(Warp& w, const Inst* i) {
  const Answer* const all = answers(w, i->a);
  for (std::size_t k = 0; k < i->extra->refs.size(); ++k) {
    std::uint32_t* const d = write32(w, i->extra->refs[k]);
    for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
      const int lane = first_lane(rest);
      d[lane] = i->target + k < 3 ? all[lane][i->target + k] : 0;
    }
  }
  return i + 1;
}

void build_first_ctaid(Builder& b) {
  b.expect_count(2, 2);
  b.use(Field::kA, b.operand(1), 'x');
  b.inst.target = b.has("get_first_ctaid::y") ? 1 : b.has("get_first_ctaid::z") ? 2 : 0;
  const unsigned wanted = b.has("v4") ? 4 : 1;
  if (b.def_vector(b.operand(0), 'w') != wanted)
    b.refuse("expected " + std::to_string(wanted) + " registers");
}

}  // namespace

void register_cluster_launch(Table& t) {
  t.family("Clusters taken over", InstClass::kAsync);
  t.row(
      "clusterlaunchcontrol.try_cancel.async[.shared::cta].mbarrier::complete_tx::bytes"
      "[.multicast::cluster::all].b128",
      does::copies(Space::kShared, Space::kReg).signalling(), build_try_cancel, try_cancel);
  constexpr Effects kReads = does::computes(Cost::kIssue).moving(Motion::kOrdered);
  t.row("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", kReads, build_is_canceled, is_canceled);
  t.row("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128", kReads, build_first_ctaid,
        first_ctaid);
  t.row(
      "clusterlaunchcontrol.query_cancel.{get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z}.b32.b128",
      kReads, build_first_ctaid, first_ctaid);
}

}  // namespace sglab::emu
