#pragma once

#include <array>

namespace sglab::emu {

// Part of matrix D held in consecutive lanes and columns of one CTA's tensor memory. The rows of A that
// form it come, when A is in tensor memory, from the same lanes.
struct DatapathBlock {
  int cta;   // 0 or 1 within the pair
  int lane;  // first lane
  int row;   // first row of D
  int rows;
  int column;  // first column of D; at tensor-memory column offset 0
  int columns;
};

struct DatapathLayout {
  char id;  // the PTX ISA's letter, A to G
  int block_count;
  std::array<DatapathBlock, 8> blocks;
};

// How D (m x n) of tcgen05.mma is spread over lanes and columns ("data path layout organization").
DatapathLayout datapath_layout(int m, int n, int cta_group, bool weight_stationary, bool sparse);

}  // namespace sglab::emu
