// cp.async: copies of 4, 8 or 16 bytes per lane, and their groups.

#include "machine/async/engine.hpp"
#include "machine/engine/launch.hpp"
#include "machine/memory/access.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_families.hpp"
#include "machine/tensor/mma_kernel.hpp"

namespace sglab::emu {
namespace {

// How many bytes are read: all, as many as a register says, or none where a predicate holds.
enum class SourceSize : std::uint8_t { kWhole, kRegister, kIgnored };

struct CopyOperands {
  ExtraAddress destination, source;
  std::uint8_t bytes;
  SourceSize reads = SourceSize::kWhole;
  std::uint32_t size = 0;  // the register or predicate, of Extra::refs
};

void read_sizes(const Warp& w, const Inst* i, const CopyOperands& plan, SmallCopy& op) {
  if (plan.reads == SourceSize::kWhole) return op.source_bytes.fill(op.bytes);
  const Ref size = i->extra->refs[plan.size];
  if (plan.reads == SourceSize::kRegister) {
    const std::uint32_t* const sizes = lanes32(w, size);
    std::uint32_t other = 0;
    for (std::size_t lane = 0; lane < 32; ++lane) {
      op.source_bytes[lane] = static_cast<std::uint8_t>(sizes[lane]);
      other |= sizes[lane] & ~std::uint32_t{op.bytes};
    }
    if (other == 0) return;  // each lane reads all or nothing
  }
  op.source_bytes.fill(op.bytes);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    std::uint32_t read = op.bytes;
    if (plan.reads == SourceSize::kRegister) read = lanes32(w, size)[lane];
    if (plan.reads == SourceSize::kIgnored && (predicate_lanes(w, size) >> lane & 1u) != 0) read = 0;
    if (read > op.bytes) {
      raise_fault(w, i, lane, "launch",
                  "cp.async reads " + std::to_string(read) + " bytes but writes " + std::to_string(op.bytes));
    }
    op.source_bytes[static_cast<std::size_t>(lane)] = static_cast<std::uint8_t>(read);
  }
}

// Whether each lane's copy is aligned, from the allocation used last and to the warp's own CTA: all of what
// check() looks at, for nearly every copy.
bool plainly_good(const Warp& w, const SmallCopy& op, const std::uint64_t* destinations) {
  const std::uint32_t window = w.cta->window, shared_bytes = w.cluster->shared_bytes;
  if (shared_bytes < kSharedReserved + op.bytes || w.allocation_end - w.allocation_begin < op.bytes)
    return false;
  const std::uint64_t low_bits = op.bytes - 1u, room = shared_bytes - kSharedReserved - op.bytes;
  const std::uint64_t begin = w.allocation_begin, most = w.allocation_end - begin - op.bytes;
  std::uint64_t unaligned = 0;
  if (w.mask == 0xffffffffu) {
    // Both limits are below 2^63, so whoever is outside has the uppermost bit in one of two differences.
    const std::uint64_t window_begin = std::uint64_t{window} + kSharedReserved;
    std::uint64_t outside = 0;
    const auto see = [&](auto reads) {
      for (std::size_t lane = 0; lane < 32; ++lane) {
        const std::uint64_t to = destinations[lane] - window_begin;
        const std::uint64_t from = (op.global[lane] - begin) & reads(lane);
        outside |= to | (room - to) | from | (most - from);
        unaligned |= destinations[lane] | (op.global[lane] & reads(lane));
      }
    };
    if (op.is_whole()) {
      see([](std::size_t) { return ~std::uint64_t{0}; });
    } else {
      see([&op](std::size_t lane) { return 0 - static_cast<std::uint64_t>(op.source_bytes[lane] != 0); });
    }
    return outside >> 63 == 0 && (unaligned & low_bits) == 0;
  }
  bool inside = true;
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(first_lane(rest));
    const std::uint64_t from = op.source_bytes[lane] == 0 ? begin : op.global[lane];
    inside &= destinations[lane] - window - kSharedReserved <= room;
    inside &= from - begin <= most;
    unaligned |= destinations[lane] | (op.source_bytes[lane] == 0 ? 0 : from);
  }
  return inside && (unaligned & low_bits) == 0;
}

// Takes the allocation that the first lane reads for the one used last. False: there is none, or it is not
// written to.
bool change_allocation(Warp& w, const SmallCopy& op) {
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(first_lane(rest));
    if (op.source_bytes[lane] == 0) continue;
    const Allocation* const found = w.launch->find(op.global[lane], op.source_bytes[lane]);
    if (found == nullptr || found->read_only) return false;
    w.allocation_begin = found->begin;
    w.allocation_end = found->end;
    return true;
  }
  return false;
}

// All of a copy's lanes at once: where to and from, how much, and that all of it is plainly good. False: it
// takes a closer look.
bool all_at_once(Warp& w, const Inst* i, const CopyOperands& plan, SmallCopy& op) {
  const AddressOperand to = extra_address(i, plan.destination), from = extra_address(i, plan.source);
  const std::uint32_t shared_bytes = w.cluster->shared_bytes;
  if (w.mask != 0xffffffffu || to.mode != AddressMode::kReg32 || from.mode != AddressMode::kReg64 ||
      plan.reads == SourceSize::kIgnored || shared_bytes < kSharedReserved + op.bytes)
    return false;
  const auto found = [&] {
    const std::uint64_t readable = w.allocation_end - w.allocation_begin;
    if (readable < op.bytes) return CopiesFound::kUneven;
    const CopyLanes copy = {
        lanes32(w, to.base),
        static_cast<std::uint32_t>(to.offset),
        op.bytes,
        lanes64(w, from.base),
        static_cast<std::uint64_t>(from.offset),
        plan.reads == SourceSize::kRegister ? lanes32(w, i->extra->refs[plan.size]) : nullptr,
        std::uint64_t{w.cta->window} + kSharedReserved,
        shared_bytes - kSharedReserved - op.bytes,
        w.allocation_begin,
        readable - op.bytes,
    };
    return mma_kernels().place_copies(copy, op.shared.data(), op.global.data(), op.source_bytes.data());
  };
  CopiesFound first = found();
  if (first == CopiesFound::kOutside && change_allocation(w, op)) first = found();
  return first == CopiesFound::kGood;
}

void check(Warp& w, const Inst* i, const SmallCopy& op, const std::uint64_t* destinations) {
  const std::uint32_t low_bits = op.bytes - 1u;
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    const auto at = static_cast<std::size_t>(lane);
    const std::uint32_t shared = checked_shared(w, i, lane, destinations[at]), read = op.source_bytes[at];
    if ((shared & low_bits) != 0 || (read != 0 && (op.global[at] & low_bits) != 0)) {
      raise_fault(w, i, lane, "misaligned",
                  "cp.async of " + std::to_string(op.bytes) + " bytes from " + hex(op.global[at]) + " to " +
                      hex(shared));
    }
    shared_bytes(w, i, lane, shared, op.bytes);
    if (read != 0) global_bytes(w, i, lane, op.global[at], read, Use::kRead);
  }
}

const Inst* copy(Warp& w, const Inst* i) {
  AsyncEngine& engine = async_engine(w);
  SmallCopy& op = engine.new_small(w);
  op.issuer = {w.slot, -1, i};
  op.mask = w.mask;
  const CopyOperands& plan = payload<CopyOperands>(i);
  op.bytes = plan.bytes;
  if (all_at_once(w, i, plan, op)) {
    engine.submit_small(w);
    return i + 1;
  }
  read_sizes(w, i, plan, op);
  std::uint64_t destinations[32];
  addresses_of(w, extra_address(i, plan.destination), destinations);
  addresses_of(w, extra_address(i, plan.source), op.global.data());
  const bool good =
      plainly_good(w, op, destinations) || (change_allocation(w, op) && plainly_good(w, op, destinations));
  if (!good) check(w, i, op, destinations);
  for (std::size_t lane = 0; lane < 32; ++lane)
    op.shared[lane] = static_cast<std::uint32_t>(destinations[lane]);
  engine.submit_small(w);
  return i + 1;
}

void build_copy(Builder& b) {
  // [destination], [source], bytes [, source size or ignore predicate] [, cache policy]
  const bool hint = b.has("L2::cache_hint");
  const unsigned count = b.count() - (hint && b.count() > 3 ? 1 : 0);
  b.expect_count(3, hint ? 5 : 4);
  CopyOperands plan;
  plan.destination = b.address_extra(b.operand(0));
  plan.source = b.address_extra(b.operand(1));
  const std::int64_t bytes = b.integer(b.operand(2));
  if (bytes != 4 && bytes != 8 && bytes != 16) b.refuse("the size must be 4, 8 or 16");
  if (b.has("cg") && bytes != 16) b.refuse(".cg copies 16 bytes");
  plan.bytes = static_cast<std::uint8_t>(bytes);
  if (count >= 4) {
    const Operand& size = b.operand(3);
    const bool predicate =
        size.kind == OperandKind::kRegister && b.function().registers[size.index] == Type::kPred;
    plan.size = b.use_extra(size, predicate ? 'P' : 'w');
    plan.reads = predicate ? SourceSize::kIgnored : SourceSize::kRegister;
  }
  b.extra().payload = plan;
}

const Inst* commit_group(Warp& w, const Inst* i) {
  async_engine(w).commit_small_group(w);
  return i + 1;
}

const Inst* wait_group(Warp& w, const Inst* i) {
  async_engine(w).wait_small_group(w, static_cast<std::uint32_t>(i->imm));
  return i + 1;
}

const Inst* wait_all(Warp& w, const Inst* i) {
  async_engine(w).wait_all_small(w);
  return i + 1;
}

void build_nothing(Builder& b) {
  b.expect_count(0, 0);
}

void build_wait_all(Builder& b) {
  b.expect_count(0, 0);
  b.inst.imm = kWaitAll;
  b.effects.count = -1;
}

void build_wait_group(Builder& b) {
  b.expect_count(1, 1);
  b.inst.imm = b.integer(b.operand(0), 0, kMostGroups, "the number of groups");
  b.effects.count = static_cast<std::int16_t>(b.inst.imm);
}

}  // namespace

void register_cp_async(Table& t) {
  t.family("Asynchronous copies: cp.async", InstClass::kAsync);
  t.row("cp.async.{ca|cg}.{shared|shared::cta}.global[.L2::cache_hint][.L2::64B|.L2::128B|.L2::256B]",
        does::copies(Space::kShared, Space::kGlobal, Cost::kCpAsync), build_copy, copy);
  t.row("cp.async.commit_group", does::commits(GroupKind::kCpAsync), build_nothing, commit_group);
  t.row("cp.async.wait_group", does::waits_for(GroupKind::kCpAsync), build_wait_group, wait_group);
  t.row("cp.async.wait_all", does::waits_for(GroupKind::kCpAsync), build_wait_all, wait_all);
}

}  // namespace sglab::emu
