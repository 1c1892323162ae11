// tcgen05: alloc, dealloc, relinquish_alloc_permit, ld, st, wait.

#include <cstring>
#include <string>

#include "machine/async/engine.hpp"
#include "machine/async/footprint.hpp"
#include "machine/async/tmem_pending.hpp"
#include "machine/engine/launch.hpp"
#include "machine/engine/warning.hpp"
#include "machine/ops/cluster_operands.hpp"
#include "machine/ops/tensor_families.hpp"

namespace sglab::emu {
namespace {

using AllocStatus = TensorMemory::AllocStatus;

const Inst* alloc(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const int lane = first_lane(w.mask);
  const std::uint32_t columns = lanes32(w, i->b)[lane];
  const std::uint32_t address = shared_address(w, i, main_address(i), lane);
  std::uint8_t* const place = shared_bytes(w, i, lane, address, 4);
  const std::uint32_t first = first_cta(w, i, lane, static_cast<int>(i->target));
  const auto result = async_engine(w).allocate_tmem(w.cta->rank, static_cast<int>(i->target), columns);
  if (result.status == AllocStatus::kMustWait) return block(w, i, Wait::kResource, first);
  if (result.status != AllocStatus::kDone) {
    raise_fault(w, i, lane, "tensor_memory",
                "allocation of " + std::to_string(columns) + " columns: " + alloc_status_name(result.status));
  }
  const std::uint32_t value = TmemAddress{0, result.column}.encode();
  std::memcpy(place, &value, 4);
  return i + 1;
}

const Inst* dealloc(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const int lane = first_lane(w.mask);
  const TmemAddress address = TmemAddress::decode(lanes32(w, i->a)[lane]);
  const std::uint32_t columns = lanes32(w, i->b)[lane];
  const AllocStatus status = async_engine(w).tmem(w.cta->rank).release(address.column, columns);
  if (status != AllocStatus::kDone) {
    raise_fault(w, i, lane, "tensor_memory",
                "release of " + std::to_string(columns) + " columns at column " +
                    std::to_string(address.column) + ": " + alloc_status_name(status));
  }
  ++w.cluster->events;
  for (Warp& other : w.cluster->warps)
    wake(other, Wait::kResource, first_cta(w, i, lane, static_cast<int>(i->target)));
  return i + 1;
}

const Inst* relinquish(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  async_engine(w).tmem(w.cta->rank).relinquish_permit();
  return i + 1;
}

void build_alloc(Builder& b) {
  b.expect_count(2, 2);
  b.address(b.operand(0));
  b.use(Field::kB, b.operand(1), 'w');
  b.inst.target = b.has("cta_group::2") ? 2 : 1;
}

void build_dealloc(Builder& b) {
  b.expect_count(2, 2);
  b.use(Field::kA, b.operand(0), 'w');
  b.use(Field::kB, b.operand(1), 'w');
  b.inst.target = b.has("cta_group::2") ? 2 : 1;
}

void build_nothing(Builder& b) {
  b.expect_count(0, 0);
}

// tcgen05.ld and .st: Extra::refs has the registers, the payload the form.

// The address, checked: allocated columns. Whatever the lane field says, a GPU takes the warp's own quarter.
TmemAddress checked_address(Warp& w, const Inst* i, const LdStForm& form) {
  const int lane = first_lane(w.mask);
  const TmemAddress named =
      TmemAddress::decode(static_cast<std::uint32_t>(address_of(w, main_address(i), lane)));
  const TmemAddress at = in_own_quarter(form, named, w.index);
  const auto columns = static_cast<std::uint32_t>(ld_st_columns(form));
  if (named.lane != at.lane) {
    warn(w, i, w.mask, "tmem_wrong_lanes",
         "lanes " + std::to_string(named.lane) + " to " + std::to_string(named.lane + ld_st_lanes(form) - 1) +
             " named by warp " + std::to_string(w.index) + ", which reaches " + std::to_string(at.lane) +
             " to " + std::to_string(at.lane + ld_st_lanes(form) - 1) + ": it accesses those");
  }
  const TensorMemory& tmem = async_engine(w).tmem(w.cta->rank);
  constexpr std::uint32_t kUnit = TensorMemory::kUnit;  // whose columns are allocated together
  for (std::uint32_t column = at.column; column < at.column + columns; column += kUnit - column % kUnit) {
    if (tmem.is_allocated(column)) continue;
    raise_fault(w, i, lane, "tensor_memory",
                "column " + std::to_string(column) + " of tensor memory is not allocated");
  }
  return at;
}

// Reads immediately: a register dependency on tcgen05.ld is respected without tcgen05.wait::ld (PTX ISA,
// "register dependencies, same thread"), and CUTLASS's MLA kernel relies on it.
const Inst* load(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const LdStForm form = payload<LdStForm>(i);
  const TmemAddress at = checked_address(w, i, form);
  const TensorMemory& tmem = async_engine(w).tmem(w.cta->rank);
  async_engine(w).warn_of_early_use(w, i);
  async_engine(w).warn_of_stores(w, i, w.mask,
                                 {w.cta->rank, at.lane, static_cast<std::uint32_t>(ld_st_lanes(form)),
                                  at.column, static_cast<std::uint32_t>(ld_st_columns(form))});
  if (form.shape == LdStShape::k32x32b && !form.sixteen_bit) {
    std::uint32_t column = at.column;
    for (int r = 0; r < form.count; ++r) {
      std::memcpy(write32(w, i->extra->refs[static_cast<std::size_t>(r)]), tmem.column(column++) + at.lane,
                  128);
    }
    return i + 1;
  }
  std::uint32_t values[128 * 32];
  tmem_load(tmem, form, at, values);
  for (std::size_t r = 0; r < static_cast<std::size_t>(ld_st_registers(form)); ++r)
    std::memcpy(write32(w, i->extra->refs[r]), values + 32 * r, 128);
  return i + 1;
}

// tcgen05.ld.red: the last register gets the least or the greatest of what the thread loaded.
enum Reduction : std::int64_t { kMax = 1, kAbs = 2, kNan = 4, kFloat = 8, kSigned = 16 };

std::uint32_t reduced(std::int64_t how, std::uint32_t x, std::uint32_t y) {
  const bool max = how & kMax;
  if (how & kFloat) {
    const float a = bits_to_float(x), b = bits_to_float(y);
    if (a != a || b != b) {
      if ((how & kNan) || (a != a && b != b)) return 0x7fffffffu;
      return a != a ? y : x;
    }
    // -0 is less than +0.
    const bool less = a < b || (a == b && x >> 31 > y >> 31);
    return less == max ? y : x;
  }
  const bool less = how & kSigned ? static_cast<std::int32_t>(x) < static_cast<std::int32_t>(y) : x < y;
  return less == max ? y : x;
}

const Inst* load_reduced(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const Inst* const next = load(w, i);
  const auto& refs = i->extra->refs;
  const auto registers = static_cast<std::size_t>(ld_st_registers(payload<LdStForm>(i)));
  std::uint32_t result[32];
  for (int lane = 0; lane < 32; ++lane) {
    const auto value = [&](std::size_t r) {
      const std::uint32_t bits = lanes32(w, refs[r])[lane];
      return i->target & kAbs ? bits & 0x7fffffffu : bits;
    };
    result[lane] = value(0);
    for (std::size_t r = 1; r < registers; ++r) result[lane] = reduced(i->target, result[lane], value(r));
  }
  std::memcpy(write32(w, refs[registers]), result, 128);
  return next;
}

const Inst* wait_load(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  return i + 1;
}

constexpr std::size_t kMostStores = 1024;  // of a warp, without a wait

void write_stores(Warp& w) {
  AsyncEngine& engine = async_engine(w);
  std::vector<PendingStore>& pending = engine.tmem_stores(w);
  TensorMemory& tmem = engine.tmem(w.cta->rank);
  for (const PendingStore& entry : pending) {
    tmem.set_writer({entry.position, w.slot, static_cast<std::uint32_t>(entry.inst - w.code), true});
    tmem_store(tmem, payload<LdStForm>(entry.inst), entry.address, entry.values.data());
  }
  engine.keep_values(pending);
  pending.clear();
}

const Inst* store(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const LdStForm form = payload<LdStForm>(i);
  PendingStore entry{i, w.launch->position, checked_address(w, i, form), async_engine(w).take_values()};
  entry.values.resize(32 * i->extra->refs.size());
  for (std::size_t r = 0; r < i->extra->refs.size(); ++r) {
    std::memcpy(&entry.values[32 * r], lanes32(w, i->extra->refs[r]), 128);
  }
  std::vector<PendingStore>& pending = async_engine(w).tmem_stores(w);
  if (pending.size() == kMostStores) write_stores(w);
  pending.push_back(std::move(entry));
  return i + 1;
}

const Inst* wait_store(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  write_stores(w);
  return i + 1;
}

void build_ld_st(Builder& b) {
  const bool loads = b.has("ld"), split = b.has("16x32bx2"), reduces = b.has("red");
  const unsigned operands = 2 + (split ? 1 : 0) + (reduces ? 1 : 0);
  b.expect_count(operands, operands);
  LdStForm form{LdStShape::k32x32b, 1, b.has("pack::16b") || b.has("unpack::16b")};
  for (const std::string_view part : b.form.parts) {
    if (const auto shape = parse_ld_st_shape(part)) form.shape = *shape;
    if (part[0] == 'x') form.count = std::stoi(std::string(part.substr(1)));
  }
  const unsigned address = loads ? (reduces ? 2 : 1) : 0, registers = loads ? 0 : (split ? 2 : 1);
  if (split) {
    form.half_split =
        static_cast<int>(b.integer(b.operand(address + 1), 0, TensorMemory::kColumns - 1, "the half split"));
  }
  b.address(b.operand(address));
  const unsigned given =
      loads ? b.def_vector(b.operand(registers), 'w') : b.use_vector(b.operand(registers), 'w');
  if (given != static_cast<unsigned>(ld_st_registers(form))) {
    b.refuse("expected " + std::to_string(ld_st_registers(form)) + " registers, found " +
             std::to_string(given));
  }
  if (reduces) {
    b.def_extra(b.operand(1), 'w');
    b.inst.target = (b.has("max") ? kMax : 0) | (b.has("abs") ? kAbs : 0) | (b.has("NaN") ? kNan : 0) |
                    (b.has("f32") ? kFloat : 0) | (b.has("s32") ? kSigned : 0);
  }
  b.extra().payload = form;
}

}  // namespace

void register_tensor_memory(Table& t) {
  t.family("Tensor memory", InstClass::kTensorMemory);
  constexpr Effects kAllocates = does::allocates();
  constexpr Effects kReleases =
      does::tensor_memory(Act::kTmemDealloc, Cost::kTmemAlloc, TaintRule::kControl, Motion::kFixed)
          .with(&Effects::releases, std::uint8_t{kReleasesTmem});
  constexpr Effects kRelinquishes =
      does::tensor_memory(Act::kTmemRelinquish, Cost::kIssue, TaintRule::kControl, Motion::kOrdered);
  constexpr Effects kLoads =
      does::tensor_memory(Act::kTmemLoad, Cost::kTmemLoad, TaintRule::kTmemLoad, Motion::kOrdered);
  constexpr Effects kStores =
      does::tensor_memory(Act::kTmemStore, Cost::kTmemStore, TaintRule::kTmemStore, Motion::kOrdered);
  constexpr Effects kLoadsDone = does::settles(FenceKind::kTcgenWaitLoad, Event::kWait, Cost::kTmemWaitLoad,
                                               TaintRule::kControl, Motion::kFixed);
  constexpr Effects kStoresDone = does::settles(FenceKind::kTcgenWaitStore, Event::kWait,
                                                Cost::kTmemWaitStore, TaintRule::kControl, Motion::kFixed);
  t.row("tcgen05.alloc.{cta_group::1|cta_group::2}.sync.aligned[.shared::cta].b32", kAllocates, build_alloc,
        alloc);
  t.row("tcgen05.dealloc.{cta_group::1|cta_group::2}.sync.aligned.b32", kReleases, build_dealloc, dealloc);
  t.row("tcgen05.relinquish_alloc_permit.{cta_group::1|cta_group::2}.sync.aligned", kRelinquishes,
        build_nothing, relinquish);
  t.row("tcgen05.ld.sync.aligned.{32x32b|16x64b|16x32bx2}.{x1|x2|x4|x8|x16|x32|x64|x128}[.pack::16b].b32",
        kLoads, build_ld_st, load);
  t.row("tcgen05.ld.sync.aligned.16x128b.{x1|x2|x4|x8|x16|x32|x64}[.pack::16b].b32", kLoads, build_ld_st,
        load);
  t.row("tcgen05.ld.sync.aligned.16x256b.{x1|x2|x4|x8|x16|x32}[.pack::16b].b32", kLoads, build_ld_st, load);
  constexpr const char* kReducing[] = {"{u32|s32}", "f32"};
  for (const char* type : kReducing) {
    const std::string options = type[0] == 'f' ? "[.abs][.NaN]." : ".";
    t.row(("tcgen05.ld.red.sync.aligned.{32x32b|16x32bx2}.{x2|x4|x8|x16|x32|x64|x128}.{min|max}" + options +
           type)
              .c_str(),
          kLoads, build_ld_st, load_reduced);
  }
  t.row("tcgen05.st.sync.aligned.{32x32b|16x64b|16x32bx2}.{x1|x2|x4|x8|x16|x32|x64|x128}[.unpack::16b].b32",
        kStores, build_ld_st, store);
  t.row("tcgen05.st.sync.aligned.16x128b.{x1|x2|x4|x8|x16|x32|x64}[.unpack::16b].b32", kStores, build_ld_st,
        store);
  t.row("tcgen05.st.sync.aligned.16x256b.{x1|x2|x4|x8|x16|x32}[.unpack::16b].b32", kStores, build_ld_st,
        store);
  t.row("tcgen05.wait::ld.sync.aligned", kLoadsDone, build_nothing, wait_load);
  t.row("tcgen05.wait::st.sync.aligned", kStoresDone, build_nothing, wait_store);
}

}  // namespace sglab::emu
