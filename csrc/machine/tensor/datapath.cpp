#include "machine/tensor/datapath.hpp"

#include <stdexcept>
#include <string>

namespace sglab::emu {
namespace {

// `parts` slices of the columns side by side in the lanes, each `rows` lanes high.
DatapathLayout sliced(char id, int ctas, int rows, int n, int parts) {
  DatapathLayout layout{id, ctas * parts, {}};
  for (int i = 0; i < layout.block_count; ++i) {
    const int cta = i / parts, part = i % parts;
    layout.blocks[i] = {cta, part * rows, cta * rows, rows, part * (n / parts), n / parts};
  }
  return layout;
}

// 64 rows in the lower (or upper) half of each warp's 32 lanes.
DatapathLayout half_lanes(char id, int ctas, int n) {
  DatapathLayout layout{id, ctas * 4, {}};
  for (int i = 0; i < layout.block_count; ++i) {
    const int quarter = i % 4;
    layout.blocks[i] = {i / 4, quarter * 32, i * 16, 16, 0, n};
  }
  return layout;
}

}  // namespace

DatapathLayout datapath_layout(int m, int n, int cta_group, bool weight_stationary, bool sparse) {
  if (cta_group == 2) {
    if (m == 256) return sliced('A', 2, 128, n, 1);
    if (m == 128) return sparse ? half_lanes('C', 2, n) : sliced('B', 2, 64, n, 2);
  } else if (weight_stationary) {
    if (m == 128) return sliced('D', 1, 128, n, 1);
    if (m == 64) return sliced('E', 1, 64, n, 2);
    if (m == 32) return sliced('G', 1, 32, n, 4);
  } else {
    if (m == 128) return sliced('D', 1, 128, n, 1);
    if (m == 64) return half_lanes('F', 1, n);
  }
  throw std::invalid_argument("tcgen05.mma: no data path layout for M = " + std::to_string(m) +
                              " with cta_group::" + std::to_string(cta_group));
}

}  // namespace sglab::emu
