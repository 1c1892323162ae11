#include "machine/async/footprint.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "isa/aperture.hpp"
#include "machine/async/box_rows.hpp"
#include "machine/tensor/mma_panels.hpp"
#include "machine/tensor/wgmma.hpp"

namespace sglab::emu {
namespace {

// Appends a range; ranges side by side become one, in whatever order a swizzle visits them.
void add(std::vector<Range>& ranges, Space space, std::uint64_t address, std::uint32_t bytes,
         std::uint8_t warps = 0xf) {
  if (bytes == 0) return;
  if (!ranges.empty() && ranges.back().space == space && ranges.back().warps == warps) {
    Range& last = ranges.back();
    if (last.address + last.bytes == address || address + bytes == last.address) {
      last.address = std::min(last.address, address);
      last.bytes += bytes;
      return;
    }
  }
  ranges.push_back({space, address, bytes, warps});
}

std::uint64_t window(std::uint32_t rank) {
  return std::uint64_t{rank} << kSharedRankShift;
}

// Where .cp_mask lets a copy to global memory write and read.
void add_masked(Footprint& f, const BulkOperation& op) {
  for (std::uint32_t at = 0; at < op.bytes; ++at) {
    if ((op.byte_mask >> at % 16 & 1) == 0) continue;
    add(f.reads, Space::kShared, op.shared + at, 1);
    add(f.writes, Space::kGlobal, op.global + at, 1);
  }
}

// The CTAs that get a multicast copy's data.
template <class F>
void for_each_target(const Cluster& cluster, const BulkOperation& op, F f) {
  const std::uint32_t own = op.shared >> kSharedRankShift;
  for (std::uint32_t rank = 0; rank < cluster.ctas.size(); ++rank) {
    if (op.multicast != 0 ? (op.multicast >> rank & 1u) != 0 : rank == own) f(rank);
  }
}

void add_box_rows(std::vector<Range>& ranges, const BulkOperation& op) {
  for_each_box_row(op.map, op.box, [&](const BoxRow& row) {
    if (row.inside_end > row.inside_begin)
      add(ranges, Space::kGlobal, row.global_address,
          global_bytes(op.map.type, row.inside_end - row.inside_begin));
  });
}

void add_operand(std::vector<Range>& ranges, std::uint32_t rank, const SmemDescriptor& descriptor,
                 const OperandShape& shape) {
  ranges.reserve(ranges.size() + static_cast<std::size_t>(shape.rows) + static_cast<std::size_t>(shape.k));
  for_each_operand_run(descriptor, shape, [&](std::uint32_t address, std::uint32_t bytes) {
    add(ranges, Space::kShared, window(rank) + address, bytes);
  });
}

std::uint32_t count(int value) {
  return static_cast<std::uint32_t>(value);
}

// Each warp reads the sixteen rows of A that its own rows of D need.
void add_rows_of_warps(std::vector<Range>& ranges, const SmemDescriptor& descriptor,
                       const OperandShape& shape) {
  const ChunkAddress address(descriptor, shape.major);
  const bool k_major = shape.major == Major::kK;
  const int per_chunk = elements_per_chunk(shape.type, false);
  const auto chunks = count((shape.k + per_chunk - 1) / per_chunk);
  const std::uint32_t step = k_major ? chunks_of_a_run(descriptor, shape.major, chunks) : 1;
  for (int warp = 0; warp < 4; ++warp) {
    const auto one = static_cast<std::uint8_t>(1 << warp);
    for (int line = k_major ? 16 * warp : 0; line < (k_major ? 16 * warp + 16 : shape.k); ++line) {
      const int begin = k_major ? 0 : 16 * warp, end = k_major ? shape.k : 16 * warp + 16;
      for (std::uint32_t chunk = count(begin / per_chunk); chunk * count(per_chunk) < count(end);
           chunk += step)
        add(ranges, Space::kShared, address(count(line), chunk) & ~(16 * step - 1), 16 * step, one);
    }
  }
}

// Footprints of operands of wgmma and tcgen05.mma, which differ mostly in where they start.
class OperandFootprints {
 public:
  struct Operand {
    SmemDescriptor descriptor;
    OperandShape shape;
    bool by_warps;  // each warp reads its rows
    bool operator==(const Operand&) const = default;
  };

  void add(std::vector<Range>& ranges, std::uint32_t rank, Operand operand) {
    constexpr std::uint32_t kPeriod = 1024;  // of all swizzles
    const std::uint32_t start = operand.descriptor.start;
    // The pattern may begin up to a period before.
    const bool moves = start >= 2 * kPeriod && !operand.descriptor.leading_is_absolute;
    const std::uint32_t moved = moves ? start / kPeriod * kPeriod - kPeriod : 0;
    operand.descriptor.start = start - moved;
    const std::uint64_t base = window(rank) + moved;
    const std::vector<Range>& all = known(operand);
    ranges.reserve(ranges.size() + all.size());
    for (const Range& range : all)
      ranges.push_back({range.space, base + range.address, range.bytes, range.warps});
  }

 private:
  struct Known {
    Operand operand;
    std::vector<Range> ranges;
  };

  const std::vector<Range>& known(const Operand& operand) {
    const SmemDescriptor& d = operand.descriptor;
    const std::size_t hash = (d.start / 16 + 7 * d.stride_offset / 16 + 5 * count(operand.shape.rows)) ^
                             (operand.by_warps ? 1u : 0u);
    Known& known = known_[hash % known_.size()];
    if (!known.ranges.empty() && known.operand == operand) return known.ranges;
    known.ranges.clear();
    known.operand = operand;
    if (operand.by_warps) {
      add_rows_of_warps(known.ranges, d, operand.shape);
    } else {
      add_operand(known.ranges, 0, d, operand.shape);
    }
    return known.ranges;
  }

  std::array<Known, 32> known_;
};

OperandFootprints& operand_footprints() {
  thread_local OperandFootprints known;
  return known;
}

void add_mma(Footprint& f, const TensorOperation& op) {
  const Tcgen05Mma& mma = op.mma;
  const InstructionDescriptor& d = mma.descriptor;
  const int stored_k = d.sparse ? d.k / 2 : d.k;
  const bool packed = is_four_bit(d.kind);
  OperandFootprints& operands = operand_footprints();
  for (std::uint32_t cta = 0; cta < op.cta_group; ++cta) {
    const std::uint32_t rank = op.cta + cta;
    if (mma.a_smem)
      operands.add(f.reads, rank,
                   {*mma.a_smem, {d.a_type, d.a_major, d.m / mma.cta_group, stored_k, packed}, false});
    operands.add(f.reads, rank, {mma.b_smem, {d.b_type, d.b_major, d.n / mma.cta_group, d.k, packed}, false});
    if (is_block_scaled(d.kind)) {
      f.tmem_reads.push_back(
          {rank, 0, TensorMemory::kLanes, mma.scale_a.column, count((d.m / mma.cta_group + 31) / 32)});
      f.tmem_reads.push_back(
          {rank, 0, TensorMemory::kLanes, mma.scale_b.column, count((accumulator_columns(mma) + 31) / 32)});
    }
    if (d.sparse)
      f.tmem_reads.push_back(
          {rank, 0, TensorMemory::kLanes, mma.sparsity_metadata.column, d.kind <= MmaKind::kTf32 ? 1u : 2u});
  }
  const DatapathLayout layout = datapath_layout(d.m, d.n, mma.cta_group, mma.weight_stationary, d.sparse);
  for (int i = 0; i < layout.block_count; ++i) {
    const DatapathBlock& block = layout.blocks[static_cast<std::size_t>(i)];
    const TmemRange cells{op.cta + count(block.cta), mma.d.lane + count(block.lane), count(block.rows),
                          mma.d.column, count(block.columns)};
    if (mma.enable_input_d) f.tmem_reads.push_back(cells);
    f.tmem_writes.push_back(cells);
    if (mma.a_smem) continue;
    // .ashift reads all rows of A but the CTA's first.
    const std::uint32_t skipped = mma.shift_a && block.row % (d.m / mma.cta_group) == 0 ? 1 : 0;
    f.tmem_reads.push_back({cells.rank, cells.lane + skipped, cells.lanes - skipped, mma.a_tmem.column,
                            count(tmem_a_columns(d.a_type, packed, stored_k))});
  }
}

void add_copy(Footprint& f, const TensorOperation& op) {
  const bool few_rows = op.shape == CopyShape::k4x256b;
  const int rows = few_rows                                                                     ? 4
                   : op.shape == CopyShape::k32x128bWarpx4                                      ? 32
                   : op.shape == CopyShape::k64x128b0213 || op.shape == CopyShape::k64x128b0123 ? 64
                                                                                                : 128;
  const int columns = copy_columns(op.shape);
  const ChunkAddress chunk(op.source, Major::kK);
  for (std::uint32_t rank = op.cta; rank < op.cta + op.cta_group; ++rank) {
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < columns / 4; ++i)
        add(f.reads, Space::kShared, window(rank) + chunk(count(row), count(i)), 16);
    }
    if (few_rows) {
      for (std::uint32_t lane = 0; lane < 4; ++lane)
        f.tmem_writes.push_back({rank, op.address.lane + 32 * lane, 1, op.address.column, count(columns)});
    } else {
      f.tmem_writes.push_back(
          {rank, op.address.lane, TensorMemory::kLanes, op.address.column, count(columns)});
    }
  }
}

}  // namespace

Footprint footprint_of(const Cluster& cluster, const BulkOperation& op, std::uint32_t, Footprint f) {
  using Kind = BulkOperation::Kind;
  f.clear();
  switch (op.kind) {
    case Kind::kLoadBox:
      add_box_rows(f.reads, op);
      for_each_target(cluster, op, [&](std::uint32_t rank) {
        add(f.writes, Space::kShared, window(rank) + (op.shared & kSharedOffsetMask),
            box_bytes(op.map, op.box));
      });
      break;
    case Kind::kStoreBox:
    case Kind::kReduceBox:
      add(f.reads, Space::kShared, op.shared, box_bytes(op.map, op.box));
      add_box_rows(f.writes, op);
      f.atomic = op.kind == Kind::kReduceBox;
      break;
    case Kind::kGlobalToShared:
      add(f.reads, Space::kGlobal, op.global, op.bytes);
      for_each_target(cluster, op, [&](std::uint32_t rank) {
        add(f.writes, Space::kShared, window(rank) + (op.shared & kSharedOffsetMask), op.bytes);
      });
      break;
    case Kind::kSharedToGlobal:
    case Kind::kReduceToGlobal:
      if (op.byte_mask != 0xffff) {
        add_masked(f, op);
        break;
      }
      add(f.reads, Space::kShared, op.shared, op.bytes);
      add(f.writes, Space::kGlobal, op.global, op.bytes);
      f.atomic = op.kind == Kind::kReduceToGlobal;
      break;
    case Kind::kSharedToShared:
    case Kind::kReduceToShared:
      add(f.reads, Space::kShared, op.source, op.bytes);
      add(f.writes, Space::kShared, op.shared, op.bytes);
      f.atomic = op.kind == Kind::kReduceToShared;
      break;
    case Kind::kStoreWords:
      add(f.writes, Space::kShared, op.shared, op.bytes);
      f.atomic = op.combines;
      break;
  }
  return f;
}

Footprint footprint_of(const Cluster&, const TensorOperation& op, std::uint32_t, Footprint f) {
  f.clear();
  switch (op.kind) {
    case TensorOperation::Kind::kMma:
      add_mma(f, op);
      break;
    case TensorOperation::Kind::kCopy:
      add_copy(f, op);
      break;
    case TensorOperation::Kind::kShift:
      for (std::uint32_t rank = op.cta; rank < op.cta + op.cta_group; ++rank) {
        f.tmem_reads.push_back({rank, op.address.lane, 32, op.address.column, 8});
        f.tmem_writes.push_back({rank, op.address.lane, 31, op.address.column, 8});
      }
      break;
  }
  return f;
}

Footprint footprint_of(const Cluster&, const SmallCopy& copy, std::uint32_t lanes, Footprint f) {
  f.clear();
  if (copy.bytes == 0) return f;
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
    add(f.reads, Space::kGlobal, copy.global[lane], copy.source_bytes[lane]);
    add(f.writes, Space::kShared, copy.shared[lane], copy.bytes);
  }
  return f;
}

Footprint footprint_of(std::uint32_t rank, const Wgmma& op, Footprint f) {
  OperandFootprints& operands = operand_footprints();
  f.clear();
  if (op.a_smem)
    operands.add(f.reads, rank, {*op.a_smem, {op.a_type, op.a_major, 64, op.stored_k(), false}, true});
  operands.add(f.reads, rank, {op.b_smem, {op.b_type, op.b_major, op.n, op.k, false}, false});
  return f;
}

}  // namespace sglab::emu
