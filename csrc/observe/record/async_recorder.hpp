#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "machine/engine/observer.hpp"
#include "observe/record/events.hpp"

namespace sglab::emu {

// Keeps asynchronous operations and the ends of phases in a log.
class AsyncRecorder final : public Observer {
 public:
  AsyncRecorder(const Stepper& stepper, EventLog& log) : stepper_(stepper), log_(log) {}

  // Row of the last complete phase of a barrier; -1: none is.
  std::int64_t last_phase(const Cta& cta, BarrierKind kind, std::uint32_t object) const;

  void issued(const Cluster& cluster, const AsyncOperation& operation) override;
  void prefetched(const Cluster& cluster, const BulkOperation& operation) override;
  void performed(const Cluster& cluster, const AsyncOperation& operation) override;
  void mbarrier_changed(const Cluster& cluster, const MbarrierChange& change) override;
  void barrier_changed(const Cta& cta, BarrierKind kind, std::uint32_t number, std::uint32_t arrived,
                       std::uint32_t wanted) override;
  void barrier_completed(const Cta& cta, BarrierKind kind, std::uint32_t number,
                         std::uint64_t phase) override;

 private:
  enum class Table : std::uint8_t { kNone, kCopies, kMmas, kTmem };
  struct Issued {
    std::uint64_t event = 0;
    std::size_t row = 0;
    Table table = Table::kNone;
  };
  struct Phases {
    std::uint64_t count = 0;  // since the initialisation
    std::int64_t last = -1;   // row
  };

  void keep_issue(const Cluster& cluster, const Issuer& issuer, const BulkOperation& operation);
  void keep_issue(const Cluster& cluster, const Issuer& issuer, const TensorOperation& operation);
  void keep_issue(const Cluster& cluster, const Issuer& issuer, const TensorCommit& commit);
  void keep_issue(const Cluster& cluster, const Issuer& issuer, const SmallCopy& copy);
  void keep_issue(const Cluster& cluster, const Issuer& issuer, const Wgmma& operation);
  void keep_phase(const Cluster& cluster, std::uint32_t mbarrier, const Issuer& issuer);
  void keep(const Cluster& cluster, const Issuer& issuer, Table table, std::size_t row);
  Issued& of(const Cluster& cluster, std::uint64_t operation);
  std::vector<Issued>& of(const Cluster& cluster);
  std::int32_t map_number(const TensorMap& map);
  EventLog::Copy copy_of(const BulkOperation& operation);

  const Stepper& stepper_;
  EventLog& log_;
  std::unordered_map<std::uint64_t, std::vector<Issued>> issued_;  // by cluster, then by operation
  std::vector<Issued>* current_ = nullptr;                         // of the cluster
  std::uint64_t current_cluster_ = 0;                              // with this index
  std::unordered_map<std::uint64_t, Phases> phases_;
};

}  // namespace sglab::emu
