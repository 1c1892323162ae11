#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "machine/async/watcher.hpp"
#include "observe/record/events.hpp"

namespace sglab::emu {

// Keeps asynchronous operations and the ends of phases in a log.
class AsyncRecorder final : public AsyncWatcher {
 public:
  AsyncRecorder(const Stepper& stepper, EventLog& log) : stepper_(stepper), log_(log) {}

  // Row of the last complete phase of a barrier; -1: none is.
  std::int64_t last_phase(const Cta& cta, BarrierKind kind, std::uint32_t object) const;

  void issued(const Cluster& cluster, const BulkOperation& operation) override;
  void issued(const Cluster& cluster, const TensorOperation& operation) override;
  void issued(const Cluster& cluster, const TensorCommit& commit) override;
  void issued(const Cluster& cluster, const SmallCopy& copy) override;
  void issued(const Cluster& cluster, const Issuer& issuer, const Wgmma& operation) override;
  void prefetched(const Cluster& cluster, const BulkOperation& operation) override;
  void performed(const Cluster& cluster, const Issuer& issuer) override;
  void changed(const Cluster& cluster, std::uint32_t mbarrier, std::uint64_t word) override;
  void changed(const Cta& cta, BarrierKind kind, std::uint32_t number, std::uint32_t arrived,
               std::uint32_t wanted) override;
  void initialised(const Cluster& cluster, std::uint32_t mbarrier) override;
  void completed(const Cluster& cluster, std::uint32_t mbarrier, const Issuer& issuer) override;
  void completed(const Cta& cta, BarrierKind kind, std::uint32_t number, std::uint64_t phase) override;

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
