#include "observe/record/async_recorder.hpp"

#include <algorithm>
#include <bit>

#include "isa/aperture.hpp"
#include "machine/async/operations.hpp"
#include "machine/sync/mbarrier.hpp"
#include "machine/tensor/wgmma.hpp"

namespace sglab::emu {
namespace {

constexpr std::int64_t kNone = -1;

std::uint64_t barrier_key(const Cluster& cluster, BarrierKind kind, std::uint32_t object) {
  return (cluster.index << 34 | static_cast<std::uint64_t>(kind) << 32) + object;
}

// Named barriers belong to a CTA, the cluster's to no one.
std::uint32_t object_of(const Cta& cta, BarrierKind kind, std::uint32_t number) {
  return kind == BarrierKind::kNamed ? cta.window | number : number;
}

std::int64_t or_none(std::uint32_t mbarrier) {
  return mbarrier == kNoMbarrier ? kNone : std::int64_t{mbarrier};
}

}  // namespace

std::int64_t AsyncRecorder::last_phase(const Cta& cta, BarrierKind kind, std::uint32_t object) const {
  const auto found = phases_.find(barrier_key(*cta.cluster, kind, object_of(cta, kind, object)));
  return found == phases_.end() ? kNone : found->second.last;
}

std::vector<AsyncRecorder::Issued>& AsyncRecorder::of(const Cluster& cluster) {
  if (current_ == nullptr || current_cluster_ != cluster.index) {
    current_ = &issued_[cluster.index];
    current_cluster_ = cluster.index;
  }
  return *current_;
}

AsyncRecorder::Issued& AsyncRecorder::of(const Cluster& cluster, std::uint64_t operation) {
  std::vector<Issued>& all = of(cluster);
  if (all.size() < operation) all.resize(operation);
  return all[operation - 1];
}

void AsyncRecorder::keep(const Cluster& cluster, const Issuer& issuer, Table table, std::size_t row) {
  of(cluster, issuer.operation) = {stepper_.position(), row, table};
}

std::int32_t AsyncRecorder::map_number(const TensorMap& map) {
  const auto found = std::find(log_.maps.begin(), log_.maps.end(), map);
  const auto number = static_cast<std::int32_t>(found - log_.maps.begin());
  if (found == log_.maps.end()) log_.maps.push_back(map);
  return number;
}

EventLog::Copy AsyncRecorder::copy_of(const BulkOperation& op) {
  using Kind = BulkOperation::Kind;
  EventLog::Copy row{};
  row.event = stepper_.position();
  row.kind = static_cast<std::uint8_t>(op.kind);
  row.done = row.source = row.global = row.map = -1;
  row.shared = op.shared;
  row.mbarrier = or_none(op.mbarrier);
  row.bytes = op.bytes;
  row.multicast = op.multicast;
  switch (op.kind) {
    case Kind::kLoadBox:
    case Kind::kStoreBox:
    case Kind::kReduceBox:
      row.map = map_number(op.map);
      row.bytes = box_bytes(op.map, op.box);
      row.coordinates = op.box.coordinates;
      row.mode = static_cast<std::uint8_t>(op.box.mode);
      break;
    case Kind::kSharedToShared:
    case Kind::kReduceToShared:
      row.source = op.source;
      break;
    case Kind::kStoreWords:
      break;
    default:
      row.global = static_cast<std::int64_t>(op.global);
  }
  return row;
}

void AsyncRecorder::issued(const Cluster& cluster, const AsyncOperation& operation) {
  std::visit([&](const auto* what) { keep_issue(cluster, operation.issuer, *what); }, operation.what);
}

void AsyncRecorder::keep_issue(const Cluster& cluster, const Issuer& issuer, const BulkOperation& op) {
  keep(cluster, issuer, Table::kCopies, log_.copies.size());
  log_.copies.push_back(copy_of(op));
}

void AsyncRecorder::prefetched(const Cluster&, const BulkOperation& op) {
  EventLog::Copy row = copy_of(op);
  row.kind =
      op.kind == BulkOperation::Kind::kLoadBox ? EventLog::Copy::kPrefetchBox : EventLog::Copy::kPrefetch;
  row.done = static_cast<std::int64_t>(row.event);
  row.shared = kNone;
  log_.copies.push_back(row);
}

void AsyncRecorder::keep_issue(const Cluster& cluster, const Issuer& issuer, const SmallCopy& copy) {
  if (copy.bytes == 0) return keep(cluster, issuer, Table::kNone, 0);
  keep(cluster, issuer, Table::kCopies, log_.copies.size());
  EventLog::Copy row{};
  row.event = stepper_.position();
  row.kind = EventLog::Copy::kCpAsync;
  row.done = row.source = row.mbarrier = row.map = -1;
  row.bytes = copy.bytes * static_cast<std::uint32_t>(std::popcount(copy.mask));
  std::uint64_t global = ~std::uint64_t{0};
  std::uint32_t shared = ~std::uint32_t{0};
  for (std::uint32_t m = copy.mask; m != 0; m &= m - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(m));
    shared = std::min(shared, copy.shared[lane]);
    if (copy.source_bytes[lane] != 0) global = std::min(global, copy.global[lane]);
  }
  row.shared = shared;
  row.global = static_cast<std::int64_t>(global);  // all ones: zeros are written
  log_.copies.push_back(row);
}

void AsyncRecorder::keep_issue(const Cluster& cluster, const Issuer& issuer, const TensorCommit&) {
  keep(cluster, issuer, Table::kNone, 0);
}

void AsyncRecorder::keep_issue(const Cluster& cluster, const Issuer& issuer, const TensorOperation& op) {
  const std::uint64_t event = stepper_.position();
  if (op.kind != TensorOperation::Kind::kMma) {
    keep(cluster, issuer, Table::kTmem, log_.tmem.size());
    const bool copies = op.kind == TensorOperation::Kind::kCopy;
    const int lanes = !copies ? 32 : op.shape == CopyShape::k4x256b ? 4 : 128;
    log_.tmem.push_back({event, kNone, op.address.encode(),
                         static_cast<std::uint16_t>(copies ? copy_columns(op.shape) : 8),
                         static_cast<std::uint16_t>(lanes),
                         copies ? EventLog::Tmem::kCopy : EventLog::Tmem::kShift, op.cta_group});
    return;
  }
  keep(cluster, issuer, Table::kMmas, log_.mmas.size());
  const InstructionDescriptor& d = op.mma.descriptor;
  EventLog::Mma row{};
  row.event = event;
  row.done = kNone;
  row.a = op.a;
  row.b = op.b;
  row.d = op.mma.d.encode();
  row.idesc = op.idesc;
  row.m = static_cast<std::uint16_t>(d.m);
  row.n = static_cast<std::uint16_t>(d.n);
  row.k = static_cast<std::uint16_t>(d.k);
  row.kind = static_cast<std::uint8_t>(d.kind);
  row.a_space = op.mma.a_smem ? EventLog::Mma::kShared : EventLog::Mma::kTensor;
  row.a_type = static_cast<std::uint8_t>(d.a_type);
  row.b_type = static_cast<std::uint8_t>(d.b_type);
  row.d_type = static_cast<std::uint8_t>(d.d_type);
  row.a_major = static_cast<std::uint8_t>(d.a_major);
  row.b_major = static_cast<std::uint8_t>(d.b_major);
  row.cta_group = op.cta_group;
  row.accumulate = op.mma.enable_input_d;
  log_.mmas.push_back(row);
}

void AsyncRecorder::keep_issue(const Cluster& cluster, const Issuer& issuer, const Wgmma& op) {
  // The first of its four warps represents all.
  if (const auto& known = of(cluster); known.size() >= issuer.operation) return;
  keep(cluster, issuer, Table::kMmas, log_.mmas.size());
  EventLog::Mma row{};
  row.event = stepper_.position();
  row.done = row.d = kNone;
  row.a = op.a;
  row.b = op.b;
  row.m = 64;
  row.n = static_cast<std::uint16_t>(op.n);
  row.k = static_cast<std::uint16_t>(op.k);
  row.kind = EventLog::Mma::kWgmma;
  row.a_space = op.a_smem ? EventLog::Mma::kShared : EventLog::Mma::kRegisters;
  row.a_type = static_cast<std::uint8_t>(op.a_type);
  row.b_type = static_cast<std::uint8_t>(op.b_type);
  row.d_type = static_cast<std::uint8_t>(op.d_type);
  row.a_major = static_cast<std::uint8_t>(op.a_major);
  row.b_major = static_cast<std::uint8_t>(op.b_major);
  row.cta_group = 1;
  row.accumulate = op.scale_d;
  log_.mmas.push_back(row);
}

void AsyncRecorder::performed(const Cluster& cluster, const AsyncOperation& operation) {
  const Issued& issued = of(cluster, operation.issuer.operation);
  const auto now = static_cast<std::int64_t>(stepper_.position());
  switch (issued.table) {
    case Table::kCopies:
      log_.copies[issued.row].done = now;
      return;
    case Table::kMmas:
      log_.mmas[issued.row].done = now;
      return;
    case Table::kTmem:
      log_.tmem[issued.row].done = now;
      return;
    case Table::kNone:
      return;
  }
}

void AsyncRecorder::mbarrier_changed(const Cluster& cluster, const MbarrierChange& change) {
  if (is_refused(change.status)) return;
  const Mbarrier now = Mbarrier::load(change.word);
  const std::uint32_t mbarrier = change.address;
  log_.states.push_back({stepper_.position(), linear_index(cluster.ctas[mbarrier >> kSharedRankShift]),
                         mbarrier, static_cast<std::int32_t>(now.pending),
                         static_cast<std::int32_t>(now.expected), now.tx_count,
                         static_cast<std::uint8_t>(BarrierKind::kMbarrier), now.phase});
  if (change.use.op == MbarrierUse::Op::kInit)
    phases_[barrier_key(cluster, BarrierKind::kMbarrier, mbarrier)] = {};
  if (change.status == MbarrierStatus::kPhaseComplete) keep_phase(cluster, mbarrier, change.issuer);
}

void AsyncRecorder::barrier_changed(const Cta& cta, BarrierKind kind, std::uint32_t number,
                                    std::uint32_t arrived, std::uint32_t wanted) {
  const std::uint64_t phase =
      kind == BarrierKind::kNamed ? cta.barriers[number].phase : cta.cluster->barrier.phase;
  log_.states.push_back({stepper_.position(), linear_index(cta), number,
                         static_cast<std::int32_t>(wanted - arrived), static_cast<std::int32_t>(wanted), 0,
                         static_cast<std::uint8_t>(kind), static_cast<std::uint8_t>(phase & 1)});
}

void AsyncRecorder::keep_phase(const Cluster& cluster, std::uint32_t mbarrier, const Issuer& issuer) {
  Phases& phases = phases_[barrier_key(cluster, BarrierKind::kMbarrier, mbarrier)];
  const std::uint64_t now = stepper_.position();
  const bool asynchronous = issuer.operation != 0;
  phases.last = static_cast<std::int64_t>(log_.phases.size());
  log_.phases.push_back({now, asynchronous ? of(cluster, issuer.operation).event : now, phases.count++,
                         linear_index(cluster.ctas[mbarrier >> kSharedRankShift]), mbarrier,
                         static_cast<std::uint8_t>(BarrierKind::kMbarrier), asynchronous});
}

void AsyncRecorder::barrier_completed(const Cta& cta, BarrierKind kind, std::uint32_t number,
                                      std::uint64_t phase) {
  const std::uint64_t now = stepper_.position();
  phases_[barrier_key(*cta.cluster, kind, object_of(cta, kind, number))].last =
      static_cast<std::int64_t>(log_.phases.size());
  log_.phases.push_back({now, now, phase, linear_index(cta), number, static_cast<std::uint8_t>(kind), false});
}

}  // namespace sglab::emu
