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

  // `over` is the phase that has gathered.
  void end(std::uint64_t over) {
    ended[over % ended.size()] = {over, std::make_shared<View>(std::move(gathering))};
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

// An operation between its issue and its completion.
struct Issued {
  std::vector<ViewPtr> views;       // of the issuing threads,
  std::vector<std::uint8_t> warps;  // whose warp in its warpgroup is that of this bit
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

// Shadows of shared memory that clusters have left for those after them: new memory costs more than to clear
// it.
struct SpareShadows {
  std::vector<std::vector<Shadow::Cell>> cells;
  std::vector<std::vector<std::uint8_t>> values;

  template <class Word>
  static void take(std::vector<std::vector<Word>>& spare, std::vector<Word>& into, std::size_t count) {
    if (!spare.empty()) {
      into = std::move(spare.back());
      spare.pop_back();
    }
    into.assign(count, {});
  }
  template <class Word>
  static void leave(std::vector<std::vector<Word>>& spare, std::vector<std::vector<Word>>& from) {
    for (std::vector<Word>& one : from) {
      if (!one.empty()) spare.push_back(std::move(one));
    }
  }
};

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
  Shadow shared, tensor;
  std::vector<std::vector<Shadow::Cell>> shared_cells, tensor_cells;  // by rank
  std::vector<std::vector<std::uint8_t>> shared_values;               // as threads have written them; by rank
  std::vector<std::array<BarrierViews, 16>> barriers;                 // by rank
  BarrierViews cluster_barrier;
  std::unordered_map<std::uint32_t, MbarrierViews> mbarriers;  // by shared::cluster address
  std::unordered_map<std::uint64_t, Issued> operations;        // by number
  std::unordered_map<std::uint64_t, Leavings> left;            // by shared::cluster address
  std::vector<std::map<std::uint32_t, Visit>> visits;          // by rank; the last of each slot
  std::vector<Party> exits;                                    // by rank: of a CTA's last threads

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
};

// Global memory, by page.
class GlobalShadow : public Shadow {
 public:
  static constexpr std::uint64_t kPageBytes = 4096, kPageBlocks = kPageBytes / kBlockBytes;
  void forget();
  struct Page {
    std::unique_ptr<Cell[]> cells;  // kPageBlocks
    std::unique_ptr<std::uint8_t[]> values;

    // What threads have written to it.
    std::uint8_t* written() {
      if (values == nullptr) values = std::make_unique<std::uint8_t[]>(kPageBytes);
      return values.get();
    }
  };
  // The page that holds this address.
  Page& find(std::uint64_t address) {
    const std::uint64_t number = address / kPageBytes;
    const Recent& recent = recent_[number % recent_.size()];
    return recent.number == number ? *recent.page : find_page(number);
  }

 private:
  struct Recent {
    std::uint64_t number = ~std::uint64_t{0};
    Page* page = nullptr;
  };
  Page& find_page(std::uint64_t number);

  std::unordered_map<std::uint64_t, Page> pages_;
  std::array<Recent, 256> recent_;
};

}  // namespace sglab::emu::races
