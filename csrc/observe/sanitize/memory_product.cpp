#include <algorithm>
#include <array>
#include <bitset>
#include <optional>

#include "isa/aperture.hpp"
#include "machine/tensor/datapath.hpp"
#include "machine/tensor/mma_panels.hpp"
#include "machine/tensor/operand.hpp"
#include "observe/sanitize/memory.hpp"

// What tcgen05.mma makes of operands that were never written: a row of A, its scale factors and its metadata
// make a row of D, a row of B and its scale factors a column. Kernels pad what they have to the shape of the
// instruction, and look only at the part that is theirs.
namespace sglab::emu {
namespace {

constexpr std::size_t kMost = 256;  // rows and columns of D
using Lines = std::bitset<kMost>;

// The rows of an operand, from `first` on, of which something was never written. Gives the address of such
// sixteen bytes.
std::optional<std::uint32_t> find_rows(const ByteFlags& shared, const SmemDescriptor& descriptor,
                                       const OperandShape& shape, int first, Lines& rows) {
  std::optional<std::uint32_t> found;
  const ChunkAddress address(descriptor, shape.major);
  const int per_chunk = elements_per_chunk(shape.type, shape.packed_fp4);
  // Unless they are packed, 4- and 6-bit elements leave padding.
  const auto used = static_cast<std::uint64_t>(std::min(16, per_chunk * element_bits(shape.type) / 8));
  const bool by_rows = shape.major == Major::kK;
  const int lines = by_rows ? shape.rows : shape.k, length = by_rows ? shape.k : shape.rows;
  for (int line = 0; line < lines; ++line) {
    for (int begin = 0; begin < length; begin += per_chunk) {
      const std::uint32_t at =
          address(static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(begin / per_chunk));
      if (shared.all(at, used)) continue;
      if (!found) found = at;
      if (by_rows) {
        rows.set(static_cast<std::size_t>(first + line));
        continue;
      }
      for (int i = 0; i < per_chunk && begin + i < length; ++i) {
        const int byte = i * 16 / per_chunk, bytes = std::max(1, 16 / per_chunk);
        if (!shared.all(at + static_cast<std::uint32_t>(byte), static_cast<std::uint64_t>(bytes)))
          rows.set(static_cast<std::size_t>(first + begin + i));
      }
    }
  }
  return found;
}

// The lane of tensor memory where the row of A lies that a row of D is made of: .ashift takes that of the
// next one, and a CTA's last row twice.
std::uint32_t lane_of_a(const Tcgen05Mma& mma, const DatapathLayout& layout, const DatapathBlock& block,
                        int row) {
  const auto lane = mma.d.lane + static_cast<std::uint32_t>(block.lane + row);
  if (!mma.shift_a) return lane;
  if (row + 1 < block.rows) return lane + 1;
  for (int i = 0; i < layout.block_count; ++i) {
    const DatapathBlock& other = layout.blocks[static_cast<std::size_t>(i)];
    if (other.cta == block.cta && other.column == block.column && other.row == block.row + block.rows)
      return mma.d.lane + static_cast<std::uint32_t>(other.lane);
  }
  return lane;
}

std::uint32_t count(int value) {
  return static_cast<std::uint32_t>(value);
}

std::uint64_t address_of(const TmemRange& range) {
  return std::uint64_t{range.rank} << 32 | range.lane << 16 | range.column;
}

// Whether a lane of D is left as it is.
bool leaves_out(const Tcgen05Mma& mma, int cta, std::uint32_t lane) {
  return (mma.disabled_lanes[static_cast<std::size_t>(cta) * 4 + lane / 32] >> lane % 32 & 1u) != 0;
}

}  // namespace

void MemorySanitizer::forget_derived(const Cluster& cluster, const TmemRange& range) {
  DerivedCells* const all = of(cluster).derived[range.rank].get();
  for (std::uint32_t c = range.column; all != nullptr && c < range.column + range.columns; ++c)
    all->cells.clear(c, range.lane, range.lanes);
}

void MemorySanitizer::derive(const Cluster& cluster, const TmemRange& range, std::uint32_t origin) {
  std::unique_ptr<DerivedCells>& all = of(cluster).derived[range.rank];
  if (all == nullptr) all = std::make_unique<DerivedCells>();
  for (std::uint32_t c = range.column; c < range.column + range.columns; ++c) {
    all->cells.set(c, range.lane, range.lanes);
    all->origin[c] = origin;
  }
}

// The origin of some derived cell of the range.
std::optional<std::uint32_t> MemorySanitizer::derived(const Cluster& cluster, const TmemRange& range) {
  DerivedCells* const all = of(cluster).derived[range.rank].get();
  for (std::uint32_t c = range.column; all != nullptr && c < range.column + range.columns; ++c) {
    if (all->cells.any(c, range.lane, range.lanes)) return all->origin[c];
  }
  return std::nullopt;
}

// A copy to tensor memory, or a shift there, which gives each lane the value of the next one.
void MemorySanitizer::taint_moved(const Actor& actor, const AsyncOp& op, const Footprint& footprint) {
  const Cluster& cluster = *actor.warp->cluster;
  for (const TmemRange& range : footprint.tmem_writes) {
    for (std::uint32_t c = range.column; c < range.column + range.columns; ++c) {
      for (std::uint32_t lane = range.lane; lane < range.lane + range.lanes; ++lane) {
        const auto origin = op.kind == AsyncOp::Kind::kTmemShift
                                ? derived(cluster, {range.rank, lane + 1, 1, c, 1})
                                : std::nullopt;
        if (origin)
          derive(cluster, {range.rank, lane, 1, c, 1}, *origin);
        else
          forget_derived(cluster, {range.rank, lane, 1, c, 1});
      }
    }
  }
}

// Where what a range holds comes from, if something of it is unknown: never written, or computed from what
// never was.
std::optional<std::uint32_t> MemorySanitizer::unknown(const Actor& actor, const TmemRange& range) {
  const Cluster& cluster = *actor.warp->cluster;
  if (const auto origin = derived(cluster, range)) return origin;
  CellFlags& flags = cells(cluster, range.rank);
  for (std::uint32_t c = range.column; c < range.column + range.columns; ++c) {
    if (!flags.all(c, range.lane, range.lanes))
      return taint_.loaded(actor, "tensor", address_of(range), 4ull * range.columns, Taint::Read::kCell);
  }
  return std::nullopt;
}

// Whether cells were never written that an operation reads.
bool MemorySanitizer::reads_unwritten(const Cluster& cluster, const Footprint& footprint) {
  return std::any_of(footprint.tmem_reads.begin(), footprint.tmem_reads.end(), [&](const TmemRange& range) {
    CellFlags& flags = cells(cluster, range.rank);
    for (std::uint32_t c = range.column; c < range.column + range.columns; ++c) {
      if (!flags.all(c, range.lane, range.lanes)) return true;
    }
    return false;
  });
}

// What is unknown beside the elements of A for row `r` of a block: its scale factor and its metadata.
std::optional<std::uint32_t> MemorySanitizer::beside_row(const Actor& actor, const TensorOperation& op,
                                                         const DatapathBlock& block, int r) {
  const Tcgen05Mma& mma = op.mma;
  const InstructionDescriptor& d = mma.descriptor;
  const std::uint32_t rank = op.cta + count(block.cta), first = mma.d.lane + count(block.lane);
  if (is_block_scaled(d.kind)) {
    const std::uint32_t index = count(block.row + r - block.cta * (d.m / mma.cta_group));
    const std::uint32_t lane = count(block.lane + r) / 32 * 32 + index % 32;
    if (const auto origin = unknown(actor, {rank, lane, 1, mma.scale_a.column + index / 32, 1}))
      return origin;
  }
  if (!d.sparse) return std::nullopt;
  const std::uint32_t column = mma.sparsity_metadata.column, row = count(r);
  // That of wide elements is shared by rows eight lanes apart.
  if (d.kind > MmaKind::kTf32) return unknown(actor, {rank, first + row, 1, column, 2});
  const std::uint32_t lane = first + row / 16 * 16 + row % 8;
  if (const auto origin = unknown(actor, {rank, lane, 1, column, 1})) return origin;
  return unknown(actor, {rank, lane + 8, 1, column, 1});
}

void MemorySanitizer::taint_product(const Actor& actor, const TensorOperation& op, const Footprint& footprint,
                                    const Range* unwritten) {
  Memories& memories = of(*actor.warp);
  const Cluster& cluster = *actor.warp->cluster;
  if (unwritten == nullptr && !any_derived(memories) && !reads_unwritten(cluster, footprint)) return;
  const Tcgen05Mma& mma = op.mma;
  const InstructionDescriptor& d = mma.descriptor;
  const int stored_k = d.sparse ? d.k / 2 : d.k, group = mma.cta_group;
  const bool packed = is_four_bit(d.kind), scaled = is_block_scaled(d.kind);
  Lines rows, columns;
  std::optional<std::uint32_t> read;
  for (int cta = 0; cta < group && unwritten != nullptr; ++cta) {
    const ByteFlags& shared = memories.shared[op.cta + count(cta)];
    const OperandShape a{d.a_type, d.a_major, d.m / group, stored_k, packed};
    const OperandShape b{d.b_type, d.b_major, d.n / group, d.k, packed};
    std::optional<std::uint32_t> at = find_rows(shared, mma.b_smem, b, cta * b.rows, columns);
    if (mma.a_smem) {
      const auto of_a = find_rows(shared, *mma.a_smem, a, cta * a.rows, rows);
      if (of_a) at = of_a;
    }
    const std::uint64_t rank = op.cta + count(cta);
    if (at && !read) read = taint_.loaded(actor, "shared", rank << kSharedRankShift | *at, 16);
  }
  for (std::size_t n = 0; n < kMost; ++n) {
    if ((mma.zero_columns[n / 64] >> n % 64 & 1) != 0) columns.reset(n);
  }
  const auto a_columns = mma.a_smem ? 0u : count(tmem_a_columns(d.a_type, packed, stored_k));
  const DatapathLayout layout = datapath_layout(d.m, d.n, group, mma.weight_stationary, d.sparse);
  for (int i = 0; i < layout.block_count; ++i) {
    const DatapathBlock& block = layout.blocks[static_cast<std::size_t>(i)];
    const std::uint32_t rank = op.cta + count(block.cta);
    const TmemRange d_cells{rank, mma.d.lane + count(block.lane), 1, mma.d.column, count(block.columns)};
    std::optional<std::uint32_t> added;
    std::array<std::optional<std::uint32_t>, kMost> of_column{};
    for (int r = 0; r < block.rows; ++r) {
      const std::uint32_t lane = mma.d.lane + count(block.lane + r),
                          partition = count(block.lane + r) / 32 * 32;
      for (int n = 0; n < block.columns && (r == 0 || (block.lane + r) % 32 == 0); ++n) {
        std::optional<std::uint32_t>& origin = of_column[static_cast<std::size_t>(n)];
        origin = columns.test(static_cast<std::size_t>(block.column + n)) ? read : std::nullopt;
        // Each partition of 32 lanes has the scale factors of B for itself.
        if (!origin && scaled)
          origin =
              unknown(actor, {rank, partition + count(n) % 32, 1, mma.scale_b.column + count(n) / 32, 1});
      }
      if (leaves_out(mma, block.cta, lane)) continue;
      std::optional<std::uint32_t> row = beside_row(actor, op, block, r);
      if (!row && rows.test(static_cast<std::size_t>(block.row + r))) row = read;
      if (!row && !mma.a_smem)
        row = unknown(actor, {rank, lane_of_a(mma, layout, block, r), 1, mma.a_tmem.column, a_columns});
      for (int n = 0; n < block.columns; ++n) {
        const TmemRange cell{rank, lane, 1, mma.d.column + count(n), 1};
        std::optional<std::uint32_t> origin = row ? row : of_column[static_cast<std::size_t>(n)];
        if (!origin && mma.enable_input_d && !cells(cluster, rank).at(cell.column, lane))
          origin = added ? added
                         : added = taint_.loaded(actor, "tensor", address_of(d_cells), 4ull * d_cells.columns,
                                                 Taint::Read::kAccumulator);
        if (origin)
          derive(cluster, cell, *origin);
        else if (!mma.enable_input_d)
          forget_derived(cluster, cell);
      }
    }
  }
}

// D but for lanes that are left as they are.
void MemorySanitizer::product_written(const Actor& actor, const TensorOperation& op, const TmemRange& range) {
  CellFlags& flags = cells(*actor.warp->cluster, range.rank);
  const Tcgen05Mma& mma = op.mma;
  const bool all = std::all_of(mma.disabled_lanes.begin(), mma.disabled_lanes.end(),
                               [](std::uint32_t lanes) { return lanes == 0; });
  for (std::uint32_t c = range.column; c < range.column + range.columns; ++c) {
    if (all) {
      flags.set(c, range.lane, range.lanes);
      continue;
    }
    for (std::uint32_t lane = range.lane; lane < range.lane + range.lanes; ++lane) {
      if (!leaves_out(mma, static_cast<int>(range.rank - op.cta), lane)) flags.set(c, lane, 1);
    }
  }
}

}  // namespace sglab::emu
