#include <algorithm>
#include <bitset>
#include <optional>

#include "isa/aperture.hpp"
#include "machine/tensor/datapath.hpp"
#include "machine/tensor/mma_panels.hpp"
#include "machine/tensor/operand.hpp"
#include "observe/sanitize/memory.hpp"

// What tcgen05.mma makes of operands that were never written: a row of A makes a row of D, a row of B a
// column. Kernels pad what they have to the shape of the instruction, and look only at the part that is
// theirs.
namespace sglab::emu {
namespace {

constexpr std::size_t kMost = 256;  // rows and columns of D
using Lines = std::bitset<kMost>;

// The rows of an operand, from `first` on, of which something was never written.
void find_rows(const ByteFlags& shared, const SmemDescriptor& descriptor, const OperandShape& shape,
               int first, Lines& rows) {
  const ChunkAddress address(descriptor, shape.major);
  const int per_chunk = elements_per_chunk(shape.type, shape.packed_fp4);
  const bool by_rows = shape.major == Major::kK;
  const int lines = by_rows ? shape.rows : shape.k, length = by_rows ? shape.k : shape.rows;
  for (int line = 0; line < lines; ++line) {
    for (int begin = 0; begin < length; begin += per_chunk) {
      const std::uint32_t at =
          address(static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(begin / per_chunk));
      if (shared.all(at, 16)) continue;
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
}

bool disabled(const Tcgen05Mma& mma, int cta, std::uint32_t lane) {
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

// Scale factors and metadata that are unknown leave nothing of D known.
std::optional<std::uint32_t> MemorySanitizer::taints_all(const Cluster& cluster, const TensorOperation& op,
                                                         const Footprint& footprint) {
  const Tcgen05Mma& mma = op.mma;
  const bool scaled = is_block_scaled(mma.descriptor.kind), sparse = mma.descriptor.sparse;
  for (const TmemRange& range : footprint.tmem_reads) {
    const bool beside =
        (scaled && (range.column == mma.scale_a.column || range.column == mma.scale_b.column)) ||
        (sparse && range.column == mma.sparsity_metadata.column);
    if (!beside || range.lanes != TensorMemory::kLanes) continue;
    if (const auto origin = derived(cluster, range)) return origin;
  }
  return std::nullopt;
}

// Whether cells of D that were never written are added to.
bool MemorySanitizer::adds_to_unwritten(const Cluster& cluster, const Footprint& footprint) {
  for (const TmemRange& range : footprint.tmem_reads) {
    if (!is_written(range, footprint)) continue;
    CellFlags& flags = cells(cluster, range.rank);
    for (std::uint32_t c = range.column; c < range.column + range.columns; ++c) {
      if (!flags.all(c, range.lane, range.lanes)) return true;
    }
  }
  return false;
}

void MemorySanitizer::taint_product(const Actor& actor, const TensorOperation& op, const Footprint& footprint,
                                    const Range* unwritten) {
  Memories& memories = of(*actor.warp);
  const Cluster& cluster = *actor.warp->cluster;
  const bool adds = adds_to_unwritten(cluster, footprint);
  if (unwritten == nullptr && !adds && !any_derived(memories)) return;
  const Tcgen05Mma& mma = op.mma;
  const InstructionDescriptor& d = mma.descriptor;
  const int stored_k = d.sparse ? d.k / 2 : d.k, group = mma.cta_group;
  const bool packed = is_four_bit(d.kind);
  Lines rows, columns;
  for (int cta = 0; cta < group && unwritten != nullptr; ++cta) {
    const ByteFlags& shared = memories.shared[op.cta + static_cast<std::uint32_t>(cta)];
    const OperandShape a{d.a_type, d.a_major, d.m / group, stored_k, packed};
    const OperandShape b{d.b_type, d.b_major, d.n / group, d.k, packed};
    if (mma.a_smem) find_rows(shared, *mma.a_smem, a, cta * a.rows, rows);
    find_rows(shared, mma.b_smem, b, cta * b.rows, columns);
  }
  for (std::size_t n = 0; n < kMost; ++n) {
    if ((mma.zero_columns[n / 64] >> n % 64 & 1) != 0) columns.reset(n);
  }
  const auto a_columns =
      mma.a_smem ? 0u : static_cast<std::uint32_t>(tmem_a_columns(d.a_type, packed, stored_k));
  std::optional<std::uint32_t> read;
  if (unwritten != nullptr)
    read = taint_.loaded(actor, name_of(unwritten->space), unwritten->address, unwritten->bytes);
  std::optional<std::uint32_t> added;
  if (adds) {
    const std::uint64_t d_address = std::uint64_t{op.cta} << 32 | mma.d.lane << 16 | mma.d.column;
    added = taint_.loaded(actor, "tensor", d_address, 4, true);
  }
  const std::optional<std::uint32_t> beside = taints_all(cluster, op, footprint);
  const DatapathLayout layout = datapath_layout(d.m, d.n, group, mma.weight_stationary, d.sparse);
  for (int i = 0; i < layout.block_count; ++i) {
    const DatapathBlock& block = layout.blocks[static_cast<std::size_t>(i)];
    const std::uint32_t rank = op.cta + static_cast<std::uint32_t>(block.cta);
    for (int r = 0; r < block.rows; ++r) {
      const std::uint32_t lane = mma.d.lane + static_cast<std::uint32_t>(block.lane + r);
      if (disabled(mma, block.cta, lane)) continue;
      // .ashift takes a row from the next lane or from its own.
      const std::uint32_t lanes = mma.shift_a && lane + 1 < TensorMemory::kLanes ? 2 : 1;
      std::optional<std::uint32_t> row = beside;
      if (!row && rows.test(static_cast<std::size_t>(block.row + r))) row = read;
      if (!row) row = derived(cluster, {rank, lane, lanes, mma.a_tmem.column, a_columns});
      for (int n = 0; n < block.columns; ++n) {
        const TmemRange cell{rank, lane, 1, mma.d.column + static_cast<std::uint32_t>(n), 1};
        std::optional<std::uint32_t> origin = row;
        if (!origin && columns.test(static_cast<std::size_t>(block.column + n))) origin = read;
        if (!origin && adds && !cells(cluster, rank).at(cell.column, lane)) origin = added;
        if (origin)
          derive(cluster, cell, *origin);
        else if (!mma.enable_input_d)
          forget_derived(cluster, cell);
      }
    }
  }
}

}  // namespace sglab::emu
