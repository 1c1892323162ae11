#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "observe/sanitize/races/memory.hpp"
#include "observe/sanitize/races/shadow.hpp"
#include "observe/sanitize/races/strand.hpp"

namespace sglab::emu::races {

// A named barrier or the cluster's: what those who have arrived in this phase know, and what the last phases
// left for those who have not passed yet.
struct BarrierViews {
  struct Ended {
    std::uint64_t phase = ~std::uint64_t{0};
    ViewPtr view;
  };
  std::uint64_t phase = 0;  // that gathers
  View gathering;
  std::array<Ended, 8> ended;  // by phase % 8

  static void* operator new(std::size_t bytes) { return Pool::take(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { Pool::leave(memory, bytes); }

  // `over` is the phase that has gathered.
  void end(std::uint64_t over) {
    ended[over % ended.size()] = {over, make_pooled<View>(std::move(gathering))};
    gathering = View{};
    phase = over + 1;
  }
};

// An mbarrier object. Arrivals of all phases gather in one view: a phase cannot end before the earlier ones.
struct MbarrierViews {
  std::uint32_t slot = 0;   // of the copies that signal it,
  std::uint32_t times = 1;  // whose clock is the number of its phases, over all initialisations
  View gathering;
  ViewPtr ended;
  std::optional<Record> initialised;
};

using Views = std::vector<ViewPtr, Pooled<ViewPtr>>;

// An operation between its issue and its completion.
struct Issued {
  Views views;                                            // of the issuing threads,
  std::vector<std::uint8_t, Pooled<std::uint8_t>> warps;  // whose warp in its warpgroup is that of this bit
  Record record;
  std::uint32_t write_slot = 0;  // of its writes, if not the record's
  std::uint32_t signals = 0;     // still to come: cp.async: lanes, others: mbarriers
};

// An access to another CTA's shared memory.
struct Visit {
  Record record;
  std::uint64_t address;
};

// What synchronising stores and atomics have left at an address.
using Leavings = std::vector<Left>;

// Everything known of one running cluster.
struct ClusterRaces {
  ClusterRaces(const Cluster& cluster, SpareShadows& spare);
  ~ClusterRaces() {
    SpareShadows::leave(spare.cells, shared_cells);
    SpareShadows::leave(spare.values, shared_values);
  }

  const Cluster& cluster;
  SpareShadows& spare;
  const std::uint64_t number;  // Cluster::index, of its own: the object serves later clusters
  Threads threads;
  Shadow shared;
  std::vector<std::vector<Shadow::Cell>> shared_cells, tensor_cells;  // by rank
  std::vector<std::vector<std::uint8_t>> shared_values;               // as threads have written them; by rank
  std::vector<std::array<std::unique_ptr<BarrierViews>, 16>> barriers;  // by rank; made by the first arrival
  BarrierViews cluster_barrier;
  PooledMap<std::uint32_t, MbarrierViews> mbarriers;   // by shared::cluster address
  PooledMap<std::uint64_t, Issued> operations;         // by number
  std::unordered_map<std::uint64_t, Leavings> left;    // by shared::cluster address
  std::vector<std::map<std::uint32_t, Visit>> visits;  // by rank; the last of each slot
  std::vector<Party> exits;                            // by rank: of a CTA's last threads

  static void* operator new(std::size_t bytes) { return Pool::take(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { Pool::leave(memory, bytes); }

  // Of tensor memory; made at first use.
  Shadow& tensor() {
    if (tensor_ == nullptr) tensor_ = std::make_unique<Shadow>();
    return *tensor_;
  }
  MbarrierViews& mbarrier(std::uint32_t address);
  // By shared::cluster address. Most CTAs of a large grid may leave without touching their shared memory, so
  // it is shadowed only when one does.
  Shadow::Cell* shared_cell(std::uint64_t address) {
    constexpr std::uint32_t kBytes = Shadow::kBlockBytes;
    std::vector<Shadow::Cell>& cells = shared_cells[address >> kSharedRankShift];
    if (cells.empty()) SpareShadows::take(spare.cells, cells, (cluster.shared_bytes + kBytes - 1) / kBytes);
    return &cells[(address & kSharedOffsetMask) / kBytes];
  }
  std::uint8_t* shared_value(std::uint64_t address) {
    std::vector<std::uint8_t>& values = shared_values[address >> kSharedRankShift];
    if (values.empty()) SpareShadows::take(spare.values, values, cluster.shared_bytes);
    return values.data() + (address & kSharedOffsetMask);
  }
  const std::uint8_t* shared_byte(std::uint64_t address) const {
    return cluster.ctas[address >> kSharedRankShift].shared + (address & kSharedOffsetMask);
  }
  // The words of tensor memory are sixteen lanes of one column, by sixteenth and column.
  static constexpr std::uint32_t kTensorLanes = 16, kTensorColumns = 512;
  std::vector<Shadow::Cell>& tensor_of(std::uint32_t rank);
  void forget_tensor(const TmemRange& range);

 private:
  std::unique_ptr<Shadow> tensor_;
};

}  // namespace sglab::emu::races
