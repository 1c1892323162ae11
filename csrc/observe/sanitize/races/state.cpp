#include "observe/sanitize/races/state.hpp"

#include "isa/aperture.hpp"

namespace sglab::emu::races {

ClusterRaces::ClusterRaces(const Cluster& cluster)
    : cluster(cluster),
      number(cluster.index),
      threads(cluster),
      shared_cells(cluster.ctas.size()),
      tensor_cells(cluster.ctas.size()),
      shared_values(cluster.ctas.size()),
      barriers(cluster.ctas.size()),
      visits(cluster.ctas.size()),
      exits(cluster.ctas.size()) {}

MbarrierViews& ClusterRaces::mbarrier(std::uint32_t address) {
  const auto [at, fresh] = mbarriers.try_emplace(address);
  if (fresh) at->second.slot = threads.new_slot();
  return at->second;
}

Shadow::Cell* ClusterRaces::shared_cell(std::uint64_t address) {
  std::vector<Shadow::Cell>& cells = shared_cells[address >> kSharedRankShift];
  if (cells.empty()) cells.resize((cluster.shared_bytes + 3) / 4);
  return &cells[(address & kSharedOffsetMask) / 4];
}

std::uint8_t* ClusterRaces::shared_value(std::uint64_t address) {
  std::vector<std::uint8_t>& values = shared_values[address >> kSharedRankShift];
  if (values.empty()) values.resize(cluster.shared_bytes);
  return values.data() + (address & kSharedOffsetMask);
}

std::vector<Shadow::Cell>& ClusterRaces::tensor_of(std::uint32_t rank) {
  std::vector<Shadow::Cell>& cells = tensor_cells[rank];
  if (cells.empty()) cells.resize(128 / kTensorLanes * kTensorColumns);
  return cells;
}

void ClusterRaces::forget_tensor(const TmemRange& range) {
  std::vector<Shadow::Cell>& cells = tensor_of(range.rank);
  for (std::uint32_t at = 0; at < cells.size(); ++at) {
    const std::uint32_t column = at % kTensorColumns;
    if (column >= range.column && column < range.column + range.columns) cells[at] = {};
  }
}

void GlobalShadow::forget() {
  clear();
  pages_.clear();
  recent_.fill({});
}

GlobalShadow::Page& GlobalShadow::find_page(std::uint64_t number) {
  Page& page = pages_[number];
  if (page.cells == nullptr) page.cells = std::make_unique<Cell[]>(kPageBytes / 4);
  recent_[number % recent_.size()] = {number, &page};
  return page;
}

std::uint8_t* GlobalShadow::values(std::uint64_t address) {
  Page& page = find(address);
  if (page.values == nullptr) page.values = std::make_unique<std::uint8_t[]>(kPageBytes);
  return page.values.get();
}

}  // namespace sglab::emu::races
