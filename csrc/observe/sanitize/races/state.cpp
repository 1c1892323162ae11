#include "observe/sanitize/races/state.hpp"

namespace sglab::emu::races {

ClusterRaces::ClusterRaces(const Cluster& cluster, SpareShadows& spare)
    : cluster(cluster),
      spare(spare),
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

std::vector<Shadow::Cell>& ClusterRaces::tensor_of(std::uint32_t rank) {
  std::vector<Shadow::Cell>& cells = tensor_cells[rank];
  if (cells.empty()) cells.resize(128 / kTensorLanes * kTensorColumns / Shadow::kBlockWords);
  return cells;
}

void ClusterRaces::forget_tensor(const TmemRange& range) {
  std::vector<Shadow::Cell>& cells = tensor_of(range.rank);
  for (std::uint32_t at = 0; at < cells.size(); ++at) {
    const std::uint32_t column = at * Shadow::kBlockWords % kTensorColumns;  // allocations hold whole blocks
    if (column >= range.column && column < range.column + range.columns) tensor().forget(cells[at]);
  }
}

}  // namespace sglab::emu::races
