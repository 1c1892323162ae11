#pragma once

#include <cstdint>

namespace sglab::emu {

struct Cluster;
struct Cta;
struct Issuer;
struct BulkOperation;
struct TensorOperation;
struct TensorCommit;
struct SmallCopy;
struct Wgmma;

enum class BarrierKind : std::uint8_t { kNamed, kMbarrier, kCluster };

// Somebody who follows the asynchronous operations of a launch and the phases of its barriers, in the order
// in which they happen; see Launch::watcher. Operations have numbers in their cluster, Issuer::operation.
class AsyncWatcher {
 public:
  virtual ~AsyncWatcher() = default;

  virtual void issued(const Cluster& cluster, const BulkOperation& operation) = 0;
  virtual void issued(const Cluster& cluster, const TensorOperation& operation) = 0;
  virtual void issued(const Cluster& cluster, const TensorCommit& commit) = 0;
  virtual void issued(const Cluster& cluster, const SmallCopy& copy) = 0;
  // By the first of the four warps.
  virtual void issued(const Cluster& cluster, const Issuer& issuer, const Wgmma& operation) = 0;
  // A prefetch has no effect here.
  virtual void prefetched(const Cluster& cluster, const BulkOperation& operation) = 0;
  // The operation's bytes move now; those of a cp.async may do so lane by lane.
  virtual void performed(const Cluster& cluster, const Issuer& issuer) = 0;

  // An mbarrier is not as it was: its word now.
  virtual void changed(const Cluster& cluster, std::uint32_t mbarrier, std::uint64_t word) = 0;
  // `arrived` of the `wanted` threads that end a phase have come to a named barrier or to the cluster's; 0 of
  // 0 when a phase has ended.
  virtual void changed(const Cta& cta, BarrierKind kind, std::uint32_t number, std::uint32_t arrived,
                       std::uint32_t wanted) = 0;
  virtual void initialised(const Cluster& cluster, std::uint32_t mbarrier) = 0;
  // A phase of an mbarrier (its shared::cluster address) is complete; Issuer::operation is 0 if an
  // instruction completed it itself.
  virtual void completed(const Cluster& cluster, std::uint32_t mbarrier, const Issuer& issuer) = 0;
  // The same of a named barrier or of the cluster's barrier, by the instruction being executed.
  virtual void completed(const Cta& cta, BarrierKind kind, std::uint32_t number, std::uint64_t phase) = 0;
};

}  // namespace sglab::emu
