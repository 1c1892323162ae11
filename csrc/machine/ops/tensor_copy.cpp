// cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and their prefetch.

#include <algorithm>
#include <optional>

#include "machine/async/engine.hpp"
#include "machine/engine/launch.hpp"
#include "machine/ops/cluster_operands.hpp"
#include "machine/ops/tensor_families.hpp"
#include "machine/ops/tensor_map_access.hpp"

namespace sglab::emu {
namespace {

using Kind = BulkOperation::Kind;

using Mode = BoxRequest::Mode;

enum Flags : std::uint32_t { kPair = 1, kLoad = 2, kPrefetch = 4 };

constexpr std::uint32_t kAbsent = 0xffffffffu;

// Operands of a tensor copy; numbers are of Extra::refs. Extra has the map and, of a load, the mbarrier.
struct CopyOperands {
  std::uint32_t flags = 0;
  Mode mode = Mode::kTile;
  ExtraAddress shared;
  std::uint32_t coordinates = 0, coordinate_count = 0;
  std::uint32_t offsets = 0, offset_count = 0;  // of im2col
  std::uint32_t mask = kAbsent;
  std::optional<ReduceOp> reduce;
};

BoxRequest request_of(const Warp& w, const Inst* i, const CopyOperands& plan, int lane) {
  BoxRequest request;
  request.mode = plan.mode;
  for (std::uint32_t n = 0; n < plan.coordinate_count; ++n) {
    request.coordinates[n] =
        static_cast<std::int32_t>(lanes32(w, i->extra->refs[plan.coordinates + n])[lane]);
  }
  for (std::uint32_t n = 0; n < plan.offset_count; ++n) {
    const Ref ref = i->extra->refs[plan.offsets + n];
    request.im2col_offsets[n] = lanes16(w, ref)[lane];
  }
  return request;
}

void check_rank(const Warp& w, const Inst* i, int lane, const CopyOperands& plan, const TensorMap& map) {
  const int rank = plan.mode == Mode::kGather4 ? 2 : static_cast<int>(plan.coordinate_count);
  if (map.rank != rank) {
    raise_fault(w, i, lane, "tensor_map",
                "a tensor map of rank " + std::to_string(map.rank) + " used by a ." + std::to_string(rank) +
                    "d copy");
  }
}

// What the ISA does not say and Hopper holds a tile to, or the copy is an illegal instruction: its innermost
// coordinate is a multiple of 16 bytes, and a store begins inside the tensor's positive half. Loads may begin
// at negative coordinates. Measured on H100 and H200.
void check_coordinates(const Warp& w, const Inst* i, int lane, const CopyOperands& plan,
                       const BulkOperation& op) {
  if (op.box.mode != Mode::kTile || op.map.interleave != Interleave::kNone) return;
  const std::int64_t bits = std::int64_t{op.box.coordinates[0]} * tensor_map_element_bits(op.map.type);
  if (bits % 128 != 0) {
    raise_fault(w, i, lane, "tensor_map",
                "the innermost coordinate " + std::to_string(op.box.coordinates[0]) +
                    " is not at a multiple of 16 bytes: an illegal instruction on hardware");
  }
  if ((plan.flags & (kLoad | kPrefetch)) != 0) return;
  for (std::uint32_t n = 0; n < plan.coordinate_count; ++n) {
    const std::int32_t coordinate = op.box.coordinates[n];
    if (coordinate < 0) {
      raise_fault(w, i, lane, "tensor_map",
                  "a store to the negative coordinate " + std::to_string(coordinate) + " in dimension " +
                      std::to_string(n) + ": an illegal instruction on hardware");
    }
  }
}

const Inst* copy(Warp& w, const Inst* i) {
  AsyncEngine& engine = async_engine(w);
  const CopyOperands& plan = payload<CopyOperands>(i);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    BulkOperation op;
    op.issuer = {w.slot, lane, i};
    op.map = read_tensor_map(w, i, extra_address(i, *i->extra->map), lane);
    check_rank(w, i, lane, plan, op.map);
    op.box = request_of(w, i, plan, lane);
    check_coordinates(w, i, lane, plan, op);
    if ((plan.flags & kPrefetch) != 0) {
      op.kind = Kind::kLoadBox;
      engine.note_prefetch(op);
      continue;
    }
    op.shared = shared_address(w, i, extra_address(i, plan.shared), lane);
    shared_bytes(w, i, lane, op.shared, box_bytes(op.map, op.box));
    if (plan.reduce) op.reduce = *plan.reduce;
    if ((plan.flags & kLoad) == 0) {
      op.kind = plan.reduce ? Kind::kReduceBox : Kind::kStoreBox;
      engine.submit_grouped(w, std::move(op));
      continue;
    }
    op.kind = Kind::kLoadBox;
    op.mbarrier = shared_address(w, i, extra_address(i, *i->extra->mbarrier), lane);
    if (plan.mask != kAbsent) {
      op.multicast = op.signalled = cta_mask(w, i, plan.mask, lane);
      if ((plan.flags & kPair) != 0) {
        // .cta_group::2: of each destination's pair, the CTA with the mbarrier's parity is signalled.
        const std::uint32_t parity = op.mbarrier >> kSharedRankShift & 1u;
        const std::uint32_t even = (op.multicast | op.multicast >> 1) & 0x5555u;
        op.signalled = even << parity;
      }
    }
    engine.submit(std::move(op));
  }
  return i + 1;
}

// [tensor map, {coordinates}]
void build_map(Builder& b, const Operand& operand, CopyOperands& plan) {
  if (operand.kind != OperandKind::kAddress || operand.count != 2)
    b.refuse("expected [tensorMap, {coordinates}]");
  b.extra().map = b.address_extra(operand);
  plan.coordinates = static_cast<std::uint32_t>(b.extra().refs.size());
  plan.coordinate_count = b.use_vector(b.children(operand)[1], 'w');
  const unsigned dimensions = b.has("1d") ? 1 : b.has("2d") ? 2 : b.has("3d") ? 3 : b.has("4d") ? 4 : 5;
  const unsigned wanted = plan.mode == Mode::kGather4 ? 5 : dimensions;
  if (plan.coordinate_count != wanted) b.refuse("expected " + std::to_string(wanted) + " coordinates");
}

Mode mode_of(const Builder& b) {
  if (b.has("tile::gather4") || b.has("tile::scatter4")) return Mode::kGather4;
  if (b.has("im2col") || b.has("im2col_no_offs")) return Mode::kIm2col;
  if (b.has("im2col::w")) return Mode::kIm2colW;
  if (b.has("im2col::w::128")) return Mode::kIm2colW128;
  return Mode::kTile;
}

void build_copy(Builder& b) {
  CopyOperands plan;
  plan.mode = mode_of(b);
  if (b.has("cta_group::2")) plan.flags |= kPair;
  if (b.has("mbarrier::complete_tx::bytes")) plan.flags |= kLoad;
  if (b.has("prefetch")) plan.flags |= kPrefetch;
  const bool load = (plan.flags & kLoad) != 0, prefetch = (plan.flags & kPrefetch) != 0;
  unsigned next = load ? 1 : 0;
  build_map(b, b.operand(next++), plan);
  if (load) {
    plan.shared = b.address_extra(b.operand(0));
    b.extra().mbarrier = b.address_extra(b.operand(next++));
  } else if (!prefetch) {
    plan.shared = b.address_extra(b.operand(next++));
  }
  const bool wide = plan.mode == Mode::kIm2colW || plan.mode == Mode::kIm2colW128;
  if (b.has("im2col") || wide) {
    plan.offsets = static_cast<std::uint32_t>(b.extra().refs.size());
    plan.offset_count = b.use_vector(b.operand(next++), 'h');
    const std::uint32_t spatial = std::max(plan.coordinate_count, 2u) - 2;
    if (spatial == 0) b.refuse("im2col copies have 3 to 5 dimensions");
    if (wide && plan.offset_count != 2) b.refuse("expected {wHalo, wOffset}");
    if (!wide && plan.offset_count != spatial)
      b.refuse("expected " + std::to_string(spatial) + " im2col offsets");
  }
  if (b.has("multicast::cluster")) plan.mask = b.use_extra(b.operand(next++), 'h');
  if (b.has("L2::cache_hint")) ++next;
  b.expect_count(next, next);
  for (const std::string_view part : b.form.parts) {
    if (const auto op = parse_reduce_op(part)) plan.reduce = *op;
  }
  b.extra().payload = plan;
}

}  // namespace

void register_tensor_copy(Table& t) {
  t.family("Asynchronous copies: tensor", InstClass::kAsync);
  // The group may come after the dimension, as CUTLASS writes it, or after the completion mechanism.
  t.row(
      "cp.async.bulk.tensor.{1d|2d|3d|4d|5d}[.cta_group::1|.cta_group::2]"
      "[.tile|.tile::gather4|.im2col|.im2col::w|.im2col::w::128].{shared::cluster|shared::cta}.global"
      "[.tile|.tile::gather4|.im2col|.im2col::w|.im2col::w::128].mbarrier::complete_tx::bytes"
      "[.multicast::cluster][.cta_group::1|.cta_group::2][.L2::cache_hint]",
      does::by_map(does::copies(Space::kShared, Space::kGlobal)).signalling(), build_copy, copy);
  t.row(
      "cp.async.bulk.tensor.{1d|2d|3d|4d|5d}.global.shared::cta[.tile|.tile::scatter4|.im2col_no_offs].bulk_"
      "group[.L2::cache_hint]",
      does::by_map(does::copies(Space::kGlobal, Space::kShared)), build_copy, copy);
  t.row(
      "cp.async.bulk.tensor.{1d|2d|3d|4d|5d}[.tile|.tile::scatter4|.im2col_no_offs].global.shared::cta.bulk_"
      "group[.L2::cache_hint]",
      does::by_map(does::copies(Space::kGlobal, Space::kShared)), build_copy, copy);
  t.row(
      "cp.reduce.async.bulk.tensor.{1d|2d|3d|4d|5d}.global.shared::cta.{add|min|max|inc|dec|and|or|xor}"
      "[.tile|.im2col_no_offs].bulk_group[.L2::cache_hint]",
      does::by_map(does::reduces(Space::kGlobal, Space::kShared)), build_copy, copy);
  t.row(
      "cp.async.bulk.prefetch.tensor.{1d|2d|3d|4d|5d}[.tile|.tile::gather4|.im2col|.im2col::w|.im2col::w::"
      "128]"
      ".L2.global[.tile|.tile::gather4|.im2col|.im2col::w|.im2col::w::128][.L2::cache_hint]",
      does::by_map(does::prefetches()), build_copy, copy);
}

}  // namespace sglab::emu
