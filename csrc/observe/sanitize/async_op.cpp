#include "observe/sanitize/async_op.hpp"

#include <bit>
#include <type_traits>
#include <utility>

#include "machine/async/footprint.hpp"

namespace sglab::emu {
namespace {

AsyncOp seen(const BulkOperation& op) {
  return {op.issuer.operation, AsyncOp::Kind::kBulk, Proxy::kAsync,
          op.mbarrier,         op.signalled,         op.mbarrier == kNoMbarrier};
}

AsyncOp seen(const TensorOperation& op) {
  constexpr AsyncOp::Kind kKinds[] = {AsyncOp::Kind::kMma, AsyncOp::Kind::kTmemCopy,
                                      AsyncOp::Kind::kTmemShift};
  return {.id = op.issuer.operation,
          .kind = kKinds[static_cast<unsigned>(op.kind)],
          .proxy = Proxy::kAsync,
          .mbarrier = kNoMbarrier,
          .tensor = &op};
}

AsyncOp seen(const TensorCommit& commit) {
  return {commit.issuer.operation, AsyncOp::Kind::kCommit, Proxy::kAsync, commit.mbarrier, commit.multicast};
}

AsyncOp seen(const SmallCopy& copy) {
  const auto first = static_cast<std::size_t>(std::countr_zero(copy.mask | 1u << 31));
  const bool arrival = copy.bytes == 0;
  return {copy.issuer.operation, arrival ? AsyncOp::Kind::kArrival : AsyncOp::Kind::kCpAsync, Proxy::kGeneric,
          arrival ? copy.shared[first] : kNoMbarrier};
}

}  // namespace

AsyncOp async_op(const AsyncOperation& operation) {
  const auto visitor = [&](const auto* what) -> AsyncOp {
    if constexpr (std::is_same_v<decltype(what), const Wgmma*>) {
      return {operation.issuer.operation, AsyncOp::Kind::kWgmma, Proxy::kAsync, kNoMbarrier};
    } else {
      return seen(*what);
    }
  };
  return std::visit(visitor, operation.what);
}

Footprint footprint_of(const Cluster& cluster, const AsyncOperation& operation, Footprint f) {
  const auto visitor = [&](const auto* what) -> Footprint {
    if constexpr (std::is_same_v<decltype(what), const TensorCommit*>) {
      return {};
    } else if constexpr (std::is_same_v<decltype(what), const Wgmma*>) {
      return footprint_of(cluster.warps[operation.issuer.warp].cta->rank, *what, std::move(f));
    } else {
      return footprint_of(cluster, *what, operation.lanes, std::move(f));
    }
  };
  return std::visit(visitor, operation.what);
}

}  // namespace sglab::emu
