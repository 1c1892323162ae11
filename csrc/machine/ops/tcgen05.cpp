// tcgen05: mma, cp, shift, commit, fence.

#include <optional>

#include "machine/async/engine.hpp"
#include "machine/ops/cluster_operands.hpp"
#include "machine/ops/tensor_families.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kAbsent = 0xffffffffu;

// Operands of a tcgen05.mma; numbers are of Extra::refs.
struct MmaOperands {
  MmaKind kind;
  int cta_group;
  bool sparse, weight_stationary, shift_a;
  int scale_block = 0;  // 0: not block-scaled
  ExtraAddress d;
  std::optional<ExtraAddress> a_tmem;  // or the descriptor a
  std::uint32_t a = kAbsent, b = kAbsent, idesc = kAbsent, enable = kAbsent;
  std::uint32_t disable = kAbsent, disable_count = 0;
  int scale_d = -1;
  std::optional<ExtraAddress> metadata, scale_a, scale_b;
  std::uint32_t zero_mask = kAbsent;
};

struct CopyOperands {
  CopyShape shape;
  CopyFormat format;
};

TmemAddress tmem_operand(const Warp& w, const Inst* i, const ExtraAddress& at, int lane) {
  return TmemAddress::decode(static_cast<std::uint32_t>(address_of(w, extra_address(i, at), lane)));
}

std::uint64_t word64(const Warp& w, const Inst* i, std::uint32_t ref, int lane) {
  return lanes64(w, i->extra->refs[ref])[lane];
}
std::uint32_t word32(const Warp& w, const Inst* i, std::uint32_t ref, int lane) {
  return lanes32(w, i->extra->refs[ref])[lane];
}

// Cells of tensor memory that an operation is about to touch, in each CTA of the group: `lanes` of them from
// the address on, in allocated columns.
void require_cells(Warp& w, const Inst* i, int lane, std::uint32_t first, int cta_group, const char* what,
                   TmemAddress at, std::uint32_t lanes, int columns) {
  if (at.lane > TensorMemory::kLanes - lanes) {
    raise_fault(w, i, lane, "tensor_memory",
                std::string(what) + " covers lanes " + std::to_string(at.lane) + " to " +
                    std::to_string(at.lane + lanes - 1) + " of tensor memory's " +
                    std::to_string(TensorMemory::kLanes));
  }
  for (int cta = 0; cta < cta_group; ++cta) {
    const TensorMemory& tmem = async_engine(w).tmem(first + static_cast<std::uint32_t>(cta));
    for (int c = 0; c < columns; ++c) {
      const std::uint32_t column = at.column + static_cast<std::uint32_t>(c);
      if (tmem.is_allocated(column)) continue;
      raise_fault(
          w, i, lane, "tensor_memory",
          std::string(what) + " covers column " + std::to_string(column) + " of tensor memory, which CTA " +
              std::to_string(first + static_cast<std::uint32_t>(cta)) + " of the cluster has not allocated");
    }
  }
}

Tcgen05Mma mma_of(Warp& w, const Inst* i, const MmaOperands& plan, int lane) {
  Tcgen05Mma mma;
  mma.descriptor = decode_instruction_descriptor(plan.kind, word32(w, i, plan.idesc, lane));
  if (mma.descriptor.sparse != plan.sparse) {
    throw std::invalid_argument("the instruction descriptor's sparsity bit and the instruction (.sp) differ");
  }
  mma.cta_group = plan.cta_group;
  mma.weight_stationary = plan.weight_stationary;
  const std::string problem = check_mma_shape(mma.descriptor, plan.cta_group, plan.weight_stationary);
  if (!problem.empty())
    throw std::invalid_argument("kind::" + std::string(mma_kind_name(plan.kind)) + ": " + problem);
  mma.d = tmem_operand(w, i, plan.d, lane);
  if (plan.a_tmem) {
    mma.a_tmem = tmem_operand(w, i, *plan.a_tmem, lane);
    mma.shift_a = plan.shift_a;
  } else {
    mma.a_smem = decode_tcgen05_descriptor(word64(w, i, plan.a, lane));
  }
  mma.b_smem = decode_tcgen05_descriptor(word64(w, i, plan.b, lane));
  if (mma.a_smem) ChunkAddress(*mma.a_smem, mma.descriptor.a_major);  // throws if it makes no sense
  ChunkAddress(mma.b_smem, mma.descriptor.b_major);
  const std::uint32_t enabled = predicate_lanes(w, i->extra->refs[plan.enable]);
  mma.enable_input_d = (enabled >> lane & 1u) != 0;
  for (std::uint32_t n = 0; n < plan.disable_count; ++n)
    mma.disabled_lanes[n] = word32(w, i, plan.disable + n, lane);
  if (plan.scale_d >= 0) mma.scale_input_d = plan.scale_d;
  if (plan.metadata) mma.sparsity_metadata = tmem_operand(w, i, *plan.metadata, lane);
  if (plan.scale_block != 0) {
    mma.scale_a = tmem_operand(w, i, *plan.scale_a, lane);
    mma.scale_b = tmem_operand(w, i, *plan.scale_b, lane);
    mma.scale_block = plan.scale_block;
  }
  if (plan.zero_mask != kAbsent) {
    mma.zero_columns =
        decode_zero_column_mask(word64(w, i, plan.zero_mask, lane), mma.descriptor.m, mma.descriptor.n);
  }
  return mma;
}

const Inst* mma(Warp& w, const Inst* i) {
  const MmaOperands& plan = payload<MmaOperands>(i);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    TensorOperation op;
    op.issuer = {w.slot, lane, i};
    op.cta_group = static_cast<std::uint8_t>(plan.cta_group);
    op.cta = first_cta(w, i, lane, plan.cta_group);
    try {
      op.mma = mma_of(w, i, plan, lane);
      check_mma_cells(op.mma);
    } catch (const std::out_of_range& error) {
      raise_fault(w, i, lane, "tensor_memory", error.what());
    } catch (const std::invalid_argument& error) {
      raise_fault(w, i, lane, "tensor_core", error.what());
    }
    op.a = plan.a_tmem ? op.mma.a_tmem.encode() : word64(w, i, plan.a, lane);
    op.b = word64(w, i, plan.b, lane);
    op.idesc = word32(w, i, plan.idesc, lane);
    require_cells(w, i, lane, op.cta, plan.cta_group, "matrix D", op.mma.d, 1, accumulator_columns(op.mma));
    async_engine(w).submit(std::move(op));
  }
  return i + 1;
}

MmaKind kind_of(const Builder& b) {
  for (int kind = 0; kind <= static_cast<int>(MmaKind::kMxf4nvf4); ++kind) {
    if (b.has("kind::" + std::string(mma_kind_name(static_cast<MmaKind>(kind)))))
      return static_cast<MmaKind>(kind);
  }
  b.refuse("no .kind");
}

int scale_block_of(const Builder& b, MmaKind kind) {
  if (!b.has("block_scale")) return 0;
  if (b.has("block16") || b.has("scale_vec::4X")) return 16;
  if (b.has("block32") || b.has("scale_vec::1X") || b.has("scale_vec::2X")) return 32;
  if (kind == MmaKind::kMxf4nvf4) b.refuse("this kind needs a scale vector size");
  return 32;
}

// [d], a, b, [metadata,] idesc, …
void build_mma(Builder& b) {
  MmaOperands plan{kind_of(b), b.has("cta_group::2") ? 2 : 1, b.has("sp"), b.has("ws"), b.has("ashift")};
  plan.scale_block = scale_block_of(b, plan.kind);
  unsigned next = 0;
  const auto tmem = [&] { return b.address_extra(b.operand(next++)); };
  plan.d = tmem();
  if (b.operand(next).kind == OperandKind::kAddress) {
    plan.a_tmem = tmem();
  } else {
    if (plan.shift_a) b.refuse(".ashift needs matrix A in tensor memory");
    plan.a = b.use_extra(b.operand(next++), 'l');
  }
  plan.b = b.use_extra(b.operand(next++), 'l');
  if (plan.sparse) plan.metadata = tmem();
  plan.idesc = b.use_extra(b.operand(next++), 'w');
  if (plan.scale_block != 0) {
    plan.scale_a = tmem();
    plan.scale_b = tmem();
  } else if (b.operand(next).kind == OperandKind::kVector) {
    plan.disable = static_cast<std::uint32_t>(b.extra().refs.size());
    plan.disable_count = b.use_vector(b.operand(next++), 'w');
    if (plan.disable_count != static_cast<unsigned>(4 * plan.cta_group))
      b.refuse("disable-output-lane needs " + std::to_string(4 * plan.cta_group) + " words");
  }
  plan.enable = b.use_extra(b.operand(next++), 'P');
  if (next < b.count()) {
    if (plan.weight_stationary) {
      plan.zero_mask = b.use_extra(b.operand(next++), 'l');
    } else {
      const std::int64_t scale = b.integer(b.operand(next++));
      if (scale < 0 || scale > 15 || plan.kind > MmaKind::kTf32)
        b.refuse("scale-input-d must be 0 to 15, with kind::f16 or kind::tf32");
      plan.scale_d = static_cast<int>(scale);
    }
  }
  b.expect_count(next, next);
  b.extra().payload = plan;
}

// tcgen05.cp and .shift. Inst::target: cta_group.
template <TensorOperation::Kind kKind>
const Inst* move(Warp& w, const Inst* i) {
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    TensorOperation op;
    op.kind = kKind;
    op.issuer = {w.slot, lane, i};
    op.cta_group = static_cast<std::uint8_t>(i->target);
    op.cta = first_cta(w, i, lane, static_cast<int>(i->target));
    op.address = TmemAddress::decode(static_cast<std::uint32_t>(address_of(w, main_address(i), lane)));
    int columns = 8;
    if (kKind == TensorOperation::Kind::kCopy) {
      op.shape = payload<CopyOperands>(i).shape;
      op.format = payload<CopyOperands>(i).format;
      columns = copy_columns(op.shape);
      try {
        op.source = decode_tcgen05_descriptor(lanes64(w, i->b)[lane]);
        ChunkAddress(op.source, Major::kK);  // throws if it makes no sense
      } catch (const std::invalid_argument& error) {
        raise_fault(w, i, lane, "tensor_core", error.what());
      }
    } else if (op.address.lane % 32 != 0) {
      raise_fault(w, i, lane, "tensor_memory",
                  "tcgen05.shift at lane " + std::to_string(op.address.lane) + ", not a multiple of 32");
    }
    const bool copies = kKind == TensorOperation::Kind::kCopy;
    require_cells(w, i, lane, op.cta, op.cta_group, copies ? "tcgen05.cp" : "tcgen05.shift", op.address,
                  copies ? 1 : 32, columns);
    async_engine(w).submit(std::move(op));
  }
  return i + 1;
}

void build_copy(Builder& b) {
  b.expect_count(2, 2);
  b.address(b.operand(0));
  b.use(Field::kB, b.operand(1), 'l');
  b.inst.target = b.has("cta_group::2") ? 2 : 1;
  std::string_view shape, multicast;
  for (const std::string_view part : b.form.parts) {
    if (part.back() == 'b' && part.find('x') != std::string_view::npos) shape = part;
    if (part.substr(0, 4) == "warp") multicast = part;
  }
  const auto parsed = parse_copy_shape(shape, multicast);
  if (!parsed) b.refuse("this shape does not go with this multicast");
  const CopyFormat format = b.has("b4x16_p64")   ? CopyFormat::kB4x16P64
                            : b.has("b6x16_p32") ? CopyFormat::kB6x16P32
                                                 : CopyFormat::kNone;
  b.extra().payload = CopyOperands{*parsed, format};
}

void build_shift(Builder& b) {
  b.expect_count(1, 1);
  b.address(b.operand(0));
  b.inst.target = b.has("cta_group::2") ? 2 : 1;
}

const Inst* commit(Warp& w, const Inst* i) {
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    TensorCommit commit;
    commit.issuer = {w.slot, lane, i};
    commit.mbarrier = shared_address(w, i, extra_address(i, *i->extra->mbarrier), lane);
    if (i->extra->refs.size() > 1) commit.multicast = cta_mask(w, i, 1, lane);
    async_engine(w).mbarrier_word(commit.issuer, commit.mbarrier);
    async_engine(w).commit(commit, first_cta(w, i, lane, static_cast<int>(i->target)));
  }
  return i + 1;
}

void build_commit(Builder& b) {
  const bool multicast = b.has("multicast::cluster");
  b.expect_count(multicast ? 2 : 1, multicast ? 2 : 1);
  b.extra().mbarrier = b.address_extra(b.operand(0));
  if (multicast) b.use_extra(b.operand(1), 'h');
  b.inst.target = b.has("cta_group::2") ? 2 : 1;
}

const Inst* fence(Warp&, const Inst* i) {
  return i + 1;
}

void build_nothing(Builder& b) {
  b.expect_count(0, 0);
}

}  // namespace

std::uint32_t first_cta(const Warp& w, const Inst* i, int lane, int cta_group) {
  if (cta_group == 1) return w.cta->rank;
  const std::uint32_t even = w.cta->rank & ~1u;
  if (even + 1 >= w.cluster->ctas.size()) {
    raise_fault(w, i, lane, "tensor_core", "cta_group::2 in a cluster without a peer CTA");
  }
  return even;
}

void register_tcgen05(Table& t) {
  t.family("Tensor cores: tcgen05", InstClass::kMatrix);
  t.row(
      "tcgen05.mma[.sp].{cta_group::1|cta_group::2}.{kind::f16|kind::tf32|kind::f8f6f4|kind::i8}"
      "[.collector::a::fill|.collector::a::use|.collector::a::lastuse|.collector::a::discard]",
      does::issues(Event::kMma, Cost::kTcgen05), build_mma, mma);
  t.row(
      "tcgen05.mma[.sp].{cta_group::1|cta_group::2}.{kind::f16|kind::tf32|kind::f8f6f4|kind::i8}.ashift"
      "[.collector::a::lastuse|.collector::a::discard]",
      does::issues(Event::kMma, Cost::kTcgen05), build_mma, mma);
  t.row(
      "tcgen05.mma[.sp].{cta_group::1|cta_group::2}.{kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4}.block_scale"
      "[.scale_vec::1X|.scale_vec::2X|.scale_vec::4X|.block16|.block32]"
      "[.collector::a::fill|.collector::a::use|.collector::a::lastuse|.collector::a::discard]",
      does::issues(Event::kMma, Cost::kTcgen05), build_mma, mma);
  t.row(
      "tcgen05.mma.ws[.sp].cta_group::1.{kind::f16|kind::tf32|kind::f8f6f4|kind::i8}"
      "[.collector::b0::fill|.collector::b0::use|.collector::b0::lastuse|.collector::b0::discard"
      "|.collector::b1::fill|.collector::b1::use|.collector::b1::lastuse|.collector::b1::discard"
      "|.collector::b2::fill|.collector::b2::use|.collector::b2::lastuse|.collector::b2::discard"
      "|.collector::b3::fill|.collector::b3::use|.collector::b3::lastuse|.collector::b3::discard]",
      does::issues(Event::kMma, Cost::kTcgen05), build_mma, mma);
  t.row(
      "tcgen05.cp.{cta_group::1|cta_group::2}.{128x256b|4x256b|128x128b|64x128b|32x128b}"
      "[.warpx2::02_13|.warpx2::01_23|.warpx4][.b8x16][.b6x16_p32|.b4x16_p64]",
      does::issues(Event::kTmem, Cost::kTcgen05), build_copy, move<TensorOperation::Kind::kCopy>);
  t.row("tcgen05.shift.{cta_group::1|cta_group::2}.down", does::issues(Event::kTmem, Cost::kTcgen05),
        build_shift, move<TensorOperation::Kind::kShift>);
  t.row(
      "tcgen05.commit.{cta_group::1|cta_group::2}.mbarrier::arrive::one[.shared::cluster][.multicast::"
      "cluster].b64",
      does::issues(Event::kCommit, Cost::kTcgen05Commit).signalling(), build_commit, commit);
  t.row("tcgen05.fence::before_thread_sync",
        does::settles(FenceKind::kTcgenBefore, Event::kFence, Cost::kIssue, TaintRule::kControl,
                      Motion::kOrdered),
        build_nothing, fence);
  t.row("tcgen05.fence::after_thread_sync",
        does::settles(FenceKind::kTcgenAfter, Event::kFence, Cost::kIssue, TaintRule::kControl,
                      Motion::kOrdered),
        build_nothing, fence);
}

}  // namespace sglab::emu
