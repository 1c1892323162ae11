#pragma once

#include <vector>

#include "machine/async/operations.hpp"
#include "machine/tensor/wgmma.hpp"
#include "observe/debug/writers.hpp"

namespace sglab::emu {

// What an asynchronous operation makes one byte or cell of that it writes, before it is carried out (a copy
// may have been). Where which part of its operands that is cannot be said (sparse and block-scaled products,
// tcgen05.cp), all of them.
using Sources = std::vector<FoundWriter::Source>;
Sources sources_of(const Cluster& cluster, const BulkOperation& operation, const MemoryPlace& place);
Sources sources_of(const Cluster& cluster, const TensorOperation& operation, const MemoryPlace& place);
Sources sources_of(const Cluster& cluster, const SmallCopy& copy, std::uint32_t lane,
                   const MemoryPlace& place);
// Of the sum in row `row` and column `column`: rows of A and B that lie in shared memory.
Sources sources_of(const Cluster& cluster, std::uint32_t rank, const Wgmma& operation, int row, int column);

}  // namespace sglab::emu
