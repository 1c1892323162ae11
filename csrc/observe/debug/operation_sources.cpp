#include "observe/debug/operation_sources.hpp"

#include <algorithm>
#include <cstring>

#include "isa/aperture.hpp"
#include "machine/async/box_rows.hpp"
#include "machine/async/engine.hpp"
#include "machine/tensor/datapath.hpp"
#include "machine/tensor/mma_panels.hpp"
#include "machine/tensor/swizzle.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {
namespace {

class Collected {
 public:
  explicit Collected(const Cluster& cluster) : cluster_(cluster) {}

  void global(std::uint64_t address, std::uint32_t bytes) {
    const auto* const from = reinterpret_cast<const std::uint8_t*>(address);
    if (bytes != 0 && cluster_.launch->find(address, bytes) != nullptr)
      all.push_back({{Space::kGlobal, 0, address}, {from, from + bytes}});
  }
  // `address`: rank << 24 | offset.
  void shared(std::uint64_t address, std::uint32_t bytes) {
    const std::uint32_t rank = rank_of(address), offset = offset_of(address);
    if (rank >= cluster_.ctas.size() || offset + std::uint64_t{bytes} > cluster_.shared_bytes) return;
    const Cta& cta = cluster_.ctas[rank];
    all.push_back(
        {{Space::kShared, linear_index(cta), offset}, {cta.shared + offset, cta.shared + offset + bytes}});
  }
  void cell(std::uint32_t rank, std::uint32_t lane, std::uint32_t column) {
    if (rank >= cluster_.ctas.size() || lane >= TensorMemory::kLanes || column >= TensorMemory::kColumns)
      return;
    if (!cluster_.async->has_tmem(rank)) return;
    const std::uint32_t value = cluster_.async->tmem(rank).cell(lane, column);
    std::vector<std::uint8_t> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    all.push_back({{Space::kReg, linear_index(cluster_.ctas[rank]), lane << 16 | column}, std::move(bytes)});
  }
  // What a reduction adds to; it was carried out already.
  void before(const MemoryPlace& place) { all.push_back({place, {}}); }
  void everything(const Footprint& footprint) {
    for (const Range& range : footprint.reads)
      range.space == Space::kGlobal ? global(range.address, range.bytes) : shared(range.address, range.bytes);
    for (const TmemRange& range : footprint.tmem_reads) {
      for (std::uint32_t column = range.column; column < range.column + range.columns; ++column) {
        for (std::uint32_t lane = range.lane; lane < range.lane + range.lanes; ++lane)
          cell(range.rank, lane, column);
      }
    }
  }
  // One row of a matrix operand in shared memory: what a product's row or column is made of.
  void operand_row(std::uint32_t rank, const SmemDescriptor& descriptor, ElementType type, Major major,
                   bool packed, int row, int k) {
    const ChunkAddress address(descriptor, major);
    const int per_chunk = elements_per_chunk(type, packed);
    const std::uint64_t window = std::uint64_t{rank} << kSharedRankShift;
    if (major == Major::kK) {
      for (int chunk = 0; chunk * per_chunk < k; ++chunk)
        shared(window + address(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(chunk)), 16);
      return;
    }
    const auto bytes = static_cast<std::uint32_t>(std::max(1, 16 / per_chunk));
    const auto at = static_cast<std::uint32_t>(row % per_chunk) * 16 / static_cast<std::uint32_t>(per_chunk);
    for (int i = 0; i < k; ++i)
      shared(
          window + address(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(row / per_chunk)) + at,
          bytes);
  }

  Sources all;

 private:
  const Cluster& cluster_;
};

// Where a byte of a box lies in the other memory.
void box_byte(Collected& found, const BulkOperation& op, const MemoryPlace& place) {
  const std::uint64_t window = op.shared & ~kSharedOffsetMask;
  const std::uint32_t base = op.shared & kSharedOffsetMask;
  const bool loads = op.kind == BulkOperation::Kind::kLoadBox;
  // An exclusive-or of bits with others that stay undoes itself.
  const std::uint32_t offset =
      loads ? swizzle_address(op.map.swizzle, static_cast<std::uint32_t>(place.address)) - base : 0;
  for_each_box_row(op.map, op.box, [&](const BoxRow& row) {
    const std::uint32_t first = row.smem_offset + smem_bytes(op.map.type, row.inside_begin);
    const std::uint32_t bytes = global_bytes(op.map.type, row.inside_end - row.inside_begin);
    if (loads && offset >= first && offset < first + bytes) {
      found.global(row.global_address + (offset - first), 1);
    } else if (!loads && place.address >= row.global_address && place.address < row.global_address + bytes) {
      const auto at = static_cast<std::uint32_t>(place.address - row.global_address);
      found.shared(window + swizzle_address(op.map.swizzle, base + first + at), 1);
    }
  });
}

bool padded(TensorMapType type) {
  return type == TensorMapType::kB4x16P64 || type == TensorMapType::kB6x16P32;
}

// The row and the column of D that a cell holds; false: which is not known.
bool find_sum(const TensorOperation& op, std::uint32_t cta, std::uint32_t lane, std::uint32_t column,
              int& row, int& n) {
  const Tcgen05Mma& mma = op.mma;
  const InstructionDescriptor& d = mma.descriptor;
  const DatapathLayout layout = datapath_layout(d.m, d.n, mma.cta_group, mma.weight_stationary, d.sparse);
  for (int i = 0; i < layout.block_count; ++i) {
    const DatapathBlock& block = layout.blocks[static_cast<std::size_t>(i)];
    const int in_lane = static_cast<int>(lane) - static_cast<int>(mma.d.lane) - block.lane;
    const int in_column = static_cast<int>(column) - static_cast<int>(mma.d.column);
    if (op.cta + static_cast<std::uint32_t>(block.cta) != cta || in_lane < 0 || in_lane >= block.rows ||
        in_column < 0 || in_column >= block.columns)
      continue;
    row = block.row + in_lane;
    n = block.column + in_column;
    return true;
  }
  return false;
}

void product(Collected& found, const Cluster& cluster, const TensorOperation& op, const MemoryPlace& place,
             std::uint32_t rank) {
  const Tcgen05Mma& mma = op.mma;
  const InstructionDescriptor& d = mma.descriptor;
  const auto lane = static_cast<std::uint32_t>(place.address >> 16);
  const auto column = static_cast<std::uint32_t>(place.address & 0xffff);
  int row = 0, n = 0;
  const bool packed = is_four_bit(d.kind);
  if (d.sparse || is_block_scaled(d.kind) || mma.weight_stationary || mma.shift_a ||
      !find_sum(op, rank, lane, column, row, n))
    return found.everything(footprint_of(cluster, op, 0));
  const int rows = d.m / mma.cta_group, columns = d.n / mma.cta_group;
  if (mma.a_smem) {
    found.operand_row(op.cta + static_cast<std::uint32_t>(row / rows), *mma.a_smem, d.a_type, d.a_major,
                      packed, row % rows, d.k);
  } else {
    const int words = tmem_a_columns(d.a_type, packed, d.k);
    for (int i = 0; i < words; ++i) found.cell(rank, lane, mma.a_tmem.column + static_cast<std::uint32_t>(i));
  }
  found.operand_row(op.cta + static_cast<std::uint32_t>(n / columns), mma.b_smem, d.b_type, d.b_major, packed,
                    n % columns, d.k);
  if (mma.enable_input_d) found.cell(rank, lane, column);
}

std::uint32_t rank_in(const Cluster& cluster, std::int64_t cta) {
  std::uint32_t rank = 0;
  while (rank + 1 < cluster.ctas.size() && linear_index(cluster.ctas[rank]) != cta) ++rank;
  return rank;
}

}  // namespace

Sources sources_of(const Cluster& cluster, const BulkOperation& op, const MemoryPlace& place) {
  using Kind = BulkOperation::Kind;
  Collected found(cluster);
  const std::uint64_t to_shared = place.address - (op.shared & kSharedOffsetMask);
  switch (op.kind) {
    case Kind::kLoadBox:
    case Kind::kStoreBox:
      if (padded(op.map.type)) {
        found.everything(footprint_of(cluster, op, 0));
      } else {
        box_byte(found, op, place);
      }
      break;
    case Kind::kGlobalToShared:
      found.global(op.global + to_shared, 1);
      break;
    case Kind::kSharedToGlobal:
      found.shared(op.shared + (place.address - op.global), 1);
      break;
    case Kind::kSharedToShared:
      found.shared(op.source + to_shared, 1);
      break;
    case Kind::kReduceBox:
    case Kind::kReduceToGlobal:
    case Kind::kReduceToShared:
      found.everything(footprint_of(cluster, op, 0));
      found.before(place);
      break;
    case Kind::kStoreWords:
      if (op.combines) found.before(place);
      break;
  }
  return std::move(found.all);
}

Sources sources_of(const Cluster& cluster, const TensorOperation& op, const MemoryPlace& place) {
  Collected found(cluster);
  const std::uint32_t rank = rank_in(cluster, place.cta);
  switch (op.kind) {
    case TensorOperation::Kind::kMma:
      product(found, cluster, op, place, rank);
      break;
    case TensorOperation::Kind::kCopy:
      found.everything(footprint_of(cluster, op, 0));
      break;
    case TensorOperation::Kind::kShift:
      found.cell(rank, static_cast<std::uint32_t>(place.address >> 16) + 1,
                 static_cast<std::uint32_t>(place.address & 0xffff));
      break;
  }
  return std::move(found.all);
}

Sources sources_of(const Cluster& cluster, const SmallCopy& copy, std::uint32_t lane,
                   const MemoryPlace& place) {
  Collected found(cluster);
  const std::uint64_t at = place.address - (copy.shared[lane] & kSharedOffsetMask);
  if (at < copy.source_bytes[lane]) found.global(copy.global[lane] + at, 1);
  return std::move(found.all);
}

Sources sources_of(const Cluster& cluster, std::uint32_t rank, const Wgmma& op, int row, int column) {
  Collected found(cluster);
  if (op.sparse) {
    found.everything(footprint_of(rank, op));
    return std::move(found.all);
  }
  if (op.a_smem) found.operand_row(rank, *op.a_smem, op.a_type, op.a_major, false, row, op.k);
  found.operand_row(rank, op.b_smem, op.b_type, op.b_major, false, column, op.k);
  return std::move(found.all);
}

}  // namespace sglab::emu
