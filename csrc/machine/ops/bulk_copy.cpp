// cp.async.bulk, cp.reduce.async.bulk, their groups and prefetches; st.async, st.bulk.

#include <cstring>

#include "machine/async/engine.hpp"
#include "machine/engine/launch.hpp"
#include "machine/ops/cluster_operands.hpp"
#include "machine/ops/tensor_families.hpp"

namespace sglab::emu {
namespace {

using Kind = BulkOperation::Kind;

constexpr std::uint32_t kAbsent = 0xffffffffu;

// Operands of a plain bulk copy; numbers are of Extra::refs. With Extra::mbarrier it signals that, without it
// belongs to a bulk group.
struct CopyOperands {
  Kind kind = Kind::kGlobalToShared;
  ReduceOp reduce = ReduceOp::kAdd;
  ReduceType type = ReduceType::kU32;
  ExtraAddress destination, source;
  std::uint32_t size = kAbsent, mask = kAbsent, byte_mask = kAbsent;
};

// Operands of a st.async or red.async.
struct StoreOperands {
  ExtraAddress destination;
  unsigned first = 0, count = 1, width = 4;  // of Extra::refs; bytes of each
  std::optional<ReduceOp> reduce;
  ReduceType type = ReduceType::kU32;
};

void check_size(const Warp& w, const Inst* i, int lane, std::uint32_t bytes, std::uint64_t destination,
                std::uint64_t source) {
  if (bytes % 16 != 0) {
    raise_fault(w, i, lane, "misaligned",
                "a bulk copy of " + std::to_string(bytes) + " bytes; the size must be a multiple of 16");
  }
  if (destination % 16 != 0 || source % 16 != 0) {
    raise_fault(
        w, i, lane, "misaligned",
        "a bulk copy from " + hex(source) + " to " + hex(destination) + "; both must be aligned to 16 bytes");
  }
}

BulkOperation operation_of(Warp& w, const Inst* i, const CopyOperands& plan, int lane) {
  BulkOperation op;
  op.kind = plan.kind;
  op.issuer = {w.slot, lane, i};
  op.reduce = plan.reduce;
  op.type = plan.type;
  op.bytes = lanes32(w, i->extra->refs[plan.size])[lane];
  const AddressOperand destination = extra_address(i, plan.destination),
                       source = extra_address(i, plan.source);
  const bool from_global = plan.kind == Kind::kGlobalToShared;
  const bool to_global = plan.kind == Kind::kSharedToGlobal || plan.kind == Kind::kReduceToGlobal;
  if (from_global) {
    op.global = address_of(w, source, lane);
    op.shared = shared_address(w, i, destination, lane);
  } else if (to_global) {
    op.global = address_of(w, destination, lane);
    op.shared = shared_address(w, i, source, lane);
  } else {
    op.shared = shared_address(w, i, destination, lane);
    op.source = shared_address(w, i, source, lane);
  }
  check_size(w, i, lane, op.bytes, from_global || to_global ? op.global : op.source, op.shared);
  shared_bytes(w, i, lane, op.shared, op.bytes);
  if (!from_global && !to_global) shared_bytes(w, i, lane, op.source, op.bytes);
  if (i->extra->mbarrier) op.mbarrier = shared_address(w, i, extra_address(i, *i->extra->mbarrier), lane);
  if (plan.byte_mask != kAbsent) op.byte_mask = lanes16(w, i->extra->refs[plan.byte_mask])[lane];
  if (plan.mask != kAbsent) op.multicast = op.signalled = cta_mask(w, i, plan.mask, lane);
  return op;
}

const Inst* copy(Warp& w, const Inst* i) {
  AsyncEngine& engine = async_engine(w);
  const CopyOperands& plan = payload<CopyOperands>(i);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    BulkOperation op = operation_of(w, i, plan, first_lane(rest));
    if (i->extra->mbarrier) {
      engine.submit(std::move(op));
    } else {
      engine.submit_grouped(w, std::move(op));
    }
  }
  return i + 1;
}

void build_copy(Builder& b) {
  // [destination], [source], size [, [mbarrier]] [, mask] [, cache policy] [, byte mask]
  const bool mbarrier = b.has("mbarrier::complete_tx::bytes"), multicast = b.has("multicast::cluster");
  const unsigned fixed = 3 + (mbarrier ? 1 : 0) + (multicast ? 1 : 0);
  const unsigned all = fixed + (b.has("L2::cache_hint") ? 1 : 0) + (b.has("cp_mask") ? 1 : 0);
  b.expect_count(all, all);
  CopyOperands plan;
  plan.destination = b.address_extra(b.operand(0));
  plan.source = b.address_extra(b.operand(1));
  if (mbarrier) b.extra().mbarrier = b.address_extra(b.operand(3));
  plan.size = b.use_extra(b.operand(2), 'w');
  if (multicast) plan.mask = b.use_extra(b.operand(4), 'h');
  if (b.has("cp_mask")) plan.byte_mask = b.use_extra(b.operand(all - 1), 'h');
  // Destination first: .shared::cluster.global, .global.shared::cta, .shared::cluster.shared::cta
  const bool to_global = !b.form.parts.empty() && !mbarrier && b.has("global");
  if (to_global) plan.kind = Kind::kSharedToGlobal;
  if (!b.has("global")) plan.kind = Kind::kSharedToShared;
  for (const std::string_view part : b.form.parts) {
    const auto op = parse_reduce_op(part);
    if (!op) continue;
    plan.reduce = *op;
    plan.type = *parse_reduce_type(b.form.parts.back());
    if (!reduce_is_defined(plan.reduce, plan.type)) b.refuse("this reduction does not exist for this type");
    plan.kind = to_global ? Kind::kReduceToGlobal : Kind::kReduceToShared;
  }
  b.extra().payload = plan;
}

const Inst* commit_group(Warp& w, const Inst* i) {
  async_engine(w).commit_bulk_group(w);
  return i + 1;
}

const Inst* wait_group(Warp& w, const Inst* i) {
  async_engine(w).wait_bulk_group(w, static_cast<std::uint32_t>(i->imm));
  return i + 1;
}

void build_nothing(Builder& b) {
  b.expect_count(0, 0);
}

void build_wait_group(Builder& b) {
  b.expect_count(1, 1);
  b.inst.imm = b.integer(b.operand(0), 0, kMostGroups, "the number of groups");
  b.effects.count = static_cast<std::int16_t>(b.inst.imm);
}

const Inst* prefetch(Warp& w, const Inst* i) {
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    const std::uint64_t address = address_of(w, main_address(i), lane);
    if (address % 16 != 0 || lanes32(w, i->b)[lane] % 16 != 0) {
      raise_fault(w, i, lane, "misaligned",
                  "a bulk prefetch at " + hex(address) + " is not aligned to 16 bytes");
    }
    BulkOperation op;
    op.issuer = {w.slot, lane, i};
    op.global = address;
    op.bytes = lanes32(w, i->b)[lane];
    async_engine(w).note_prefetch(op);
  }
  return i + 1;
}

void build_prefetch(Builder& b) {
  b.expect_count(2, 3);
  b.address(b.operand(0));
  b.use(Field::kB, b.operand(1), 'w');
}

// st.async: words of 4 or 8 bytes, up to 16 bytes, with their count signalled to an mbarrier in the same CTA.
// red.async: one such word, combined with what is there.
const Inst* store(Warp& w, const Inst* i) {
  AsyncEngine& engine = async_engine(w);
  const Extra& extra = *i->extra;
  const auto& plan = payload<StoreOperands>(i);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    BulkOperation op;
    op.kind = Kind::kStoreWords;
    op.issuer = {w.slot, lane, i};
    op.shared = shared_address(w, i, extra_address(i, plan.destination), lane);
    op.mbarrier = shared_address(w, i, extra_address(i, *extra.mbarrier), lane);
    op.bytes = plan.width * plan.count;
    op.combines = plan.reduce.has_value();
    op.reduce = plan.reduce.value_or(ReduceOp::kAdd);
    op.type = plan.type;
    if (op.shared % op.bytes != 0) {
      raise_fault(w, i, lane, "misaligned",
                  (op.combines ? "red.async to " : "st.async to ") + hex(op.shared));
    }
    shared_bytes(w, i, lane, op.shared, op.bytes);
    for (unsigned n = 0; n < plan.count; ++n) {
      const Ref ref = extra.refs[plan.first + n];
      const void* value =
          plan.width == 4 ? static_cast<const void*>(lanes32(w, ref) + lane) : lanes64(w, ref) + lane;
      std::memcpy(reinterpret_cast<std::uint8_t*>(op.words.data()) + n * plan.width, value, plan.width);
    }
    engine.submit(std::move(op));
  }
  return i + 1;
}

void build_store(Builder& b) {
  b.expect_count(3, 3);
  StoreOperands store;
  store.destination = b.address_extra(b.operand(0));
  b.extra().mbarrier = b.address_extra(b.operand(2));
  store.width = type_bytes(b.type());
  store.first = static_cast<unsigned>(b.extra().refs.size());
  store.count = b.use_vector(b.operand(1), store.width == 4 ? 'w' : 'l');
  for (const std::string_view part : b.form.parts) {
    if (const auto op = parse_reduce_op(part)) store.reduce = *op;
  }
  if (store.reduce) store.type = *parse_reduce_type(b.form.parts.back());
  if (store.type == ReduceType::kS64) store.type = ReduceType::kU64;  // sums of both are the same bits
  b.extra().payload = store;
}

// st.bulk [address], size, 0: the lanes' bytes of shared memory become zero.
const Inst* clear(Warp& w, const Inst* i) {
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    const std::uint32_t address = shared_address(w, i, main_address(i), lane);
    const std::uint64_t bytes = lanes64(w, i->b)[lane];
    if (address % 8 != 0 || bytes % 8 != 0) {
      raise_fault(w, i, lane, "misaligned",
                  "st.bulk of " + std::to_string(bytes) + " bytes to " + hex(address) +
                      "; both must be multiples of 8");
    }
    if (bytes > w.cluster->shared_bytes) {
      raise_fault(w, i, lane, "out_of_bounds",
                  "st.bulk of " + std::to_string(bytes) + " bytes; shared memory has " +
                      std::to_string(w.cluster->shared_bytes));
    }
    if (bytes == 0) continue;
    const auto size = static_cast<std::uint32_t>(bytes);
    std::memset(shared_bytes(w, i, lane, address, size), 0, size);
  }
  return i + 1;
}

void build_clear(Builder& b) {
  b.expect_count(3, 3);
  b.address(b.operand(0));
  b.use(Field::kB, b.operand(1), 'l');
  if (b.integer(b.operand(2)) != 0) b.refuse("the initial value must be 0");
}

}  // namespace

std::uint32_t cta_mask(const Warp& w, const Inst* i, std::uint32_t ref, int lane) {
  const std::uint32_t mask = lanes16(w, i->extra->refs[ref])[lane];
  if (mask == 0 || mask >> w.cluster->ctas.size() != 0) {
    raise_fault(w, i, lane, "out_of_bounds",
                "CTA mask " + hex(mask) + " names CTAs outside the cluster's " +
                    std::to_string(w.cluster->ctas.size()));
  }
  return mask;
}

void register_bulk_copy(Table& t) {
  t.family("Asynchronous copies: bulk", InstClass::kAsync);
  t.row(
      "cp.async.bulk.{shared::cluster|shared::cta}.global.mbarrier::complete_tx::bytes[.multicast::cluster][."
      "L2::cache_hint]",
      does::copies(Space::kShared, Space::kGlobal).signalling(), build_copy, copy);
  t.row("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
        does::copies(Space::kShared, Space::kShared).signalling(), build_copy, copy);
  t.row("cp.async.bulk.global.shared::cta.bulk_group[.L2::cache_hint][.cp_mask]",
        does::copies(Space::kGlobal, Space::kShared), build_copy, copy);
  t.row(
      "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
      ".{add|min|max|inc|dec|and|or|xor}.{u32|s32|u64|s64|b32|b64}",
      does::reduces(Space::kShared, Space::kShared).signalling(), build_copy, copy);
  t.row(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group[.L2::cache_hint].{add|min|max|inc|dec|and|or|xor}[."
      "noftz]"
      ".{u32|s32|u64|s64|f16|bf16|f32|f64|b32|b64}",
      does::reduces(Space::kGlobal, Space::kShared), build_copy, copy);
  t.row("cp.async.bulk.commit_group", does::commits(GroupKind::kBulk), build_nothing, commit_group);
  t.row("cp.async.bulk.wait_group[.read]", does::waits_for(GroupKind::kBulk), build_wait_group, wait_group);
  t.row("cp.async.bulk.prefetch.L2.global[.L2::cache_hint]", does::prefetches(), build_prefetch, prefetch);
  t.row(
      "st.async[.weak][.shared::cluster].mbarrier::complete_tx::bytes[.v2|.v4].{b32|u32|s32|f32|b64|u64|s64|"
      "f64}",
      does::copies(Space::kShared, Space::kReg).signalling(), build_store, store);
  for (const char* tail :
       {"add.{u32|s32|u64|s64}", "{min|max}.{u32|s32}", "{inc|dec}.u32", "{and|or|xor}.b32"}) {
    const std::string pattern =
        std::string("red.async.relaxed.cluster[.shared::cluster].mbarrier::complete_tx::bytes.") + tail;
    t.row(pattern.c_str(), does::reduces(Space::kShared, Space::kReg).signalling(), build_store, store);
  }
  t.row("st.bulk[.weak][.shared::cta]", does::clears(), build_clear, clear);
}

}  // namespace sglab::emu
