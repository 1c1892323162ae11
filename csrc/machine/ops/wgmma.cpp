// wgmma.mma_async and its fences and groups.

#include <cstring>

#include "machine/async/engine.hpp"
#include "machine/async/warpgroup.hpp"
#include "machine/ops/mma_operands.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_families.hpp"
#include "machine/tensor/fragments.hpp"

namespace sglab::emu {
namespace {

ElementType element(std::string_view name) {
  for (int t = 0; t <= static_cast<int>(ElementType::kS32); ++t) {
    if (element_name(static_cast<ElementType>(t)) == name) return static_cast<ElementType>(t);
  }
  return ElementType::kF32;
}

std::uint64_t wait_key(const Warp& w) {
  return 0x3000000000u + w.slot / 4;
}

const Inst* mma_async(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const Extra& extra = *i->extra;
  const auto& plan = payload<WgmmaOperands>(i);
  const int lane = first_lane(w.mask);
  const std::size_t count = plan.accumulators, a_count = plan.a_registers;
  Wgmma op = plan.form;
  op.scale_d = (predicate_lanes(w, extra.refs[plan.scale_d]) >> lane & 1u) != 0;
  std::vector<std::uint32_t> a;
  if (a_count > 0) {
    a.resize(32 * a_count);
    for (std::size_t r = 0; r < a_count; ++r) std::memcpy(&a[32 * r], lanes32(w, extra.refs[count + r]), 128);
  } else {
    op.a = lanes64(w, extra.refs[count])[lane];
    op.a_smem = decode_wgmma_descriptor(op.a);
  }
  if (op.sparse) {
    const std::uint32_t* const metadata = lanes32(w, extra.refs[plan.metadata]);
    a.insert(a.end(), metadata, metadata + 32);
  }
  op.b = lanes64(w, extra.refs[plan.b])[lane];
  op.b_smem = decode_wgmma_descriptor(op.b);
  const std::vector<Ref> registers(extra.refs.begin(),
                                   extra.refs.begin() + static_cast<std::ptrdiff_t>(count));
  async_engine(w).warn_of_early_use(w, i);
  async_engine(w).warpgroup(w).issue(w, i, op, registers, std::move(a));
  ++w.cluster->events;
  for (Warp& other : w.cluster->warps) wake(other, Wait::kAsync, wait_key(w));
  return i + 1;
}

int shape_number(std::string_view shape, char letter) {
  return std::stoi(std::string(shape.substr(shape.rfind(letter) + 1)));
}

void build_mma_async(Builder& b) {
  std::vector<ElementType> types;
  std::string_view shape;
  for (const std::string_view part : b.form.parts) {
    if (part.substr(0, 4) == "m64n") shape = part;
    const ElementType type = element(part);
    if (element_name(type) == part) types.push_back(type);
  }
  const int n = shape_number(shape.substr(0, shape.rfind('k')), 'n'), k = shape_number(shape, 'k');
  const ElementType d = types[0], a = types[1], right = types[2];
  const bool sparse = b.has("sp");
  const int wanted_k = (sparse ? 512 : 256) / element_bits(a);
  if (n < 8 || n > 256 || n % 8 != 0 || k != wanted_k)
    b.refuse("shape " + std::string(shape) + " does not exist for this type");
  WgmmaOperands plan;
  Wgmma& form = plan.form;
  form.n = n, form.k = k;
  form.a_type = a, form.b_type = right, form.d_type = d;
  plan.accumulators = b.update_vector(b.operand(0), 'w');
  if (plan.accumulators != static_cast<unsigned>(WgmmaAccumulators::registers(d, n))) {
    b.refuse("expected " + std::to_string(WgmmaAccumulators::registers(d, n)) + " accumulator registers");
  }
  const bool a_in_registers = b.operand(1).kind == OperandKind::kVector;
  if (a_in_registers) {
    plan.a_registers = b.use_vector(b.operand(1), 'w');
    if (plan.a_registers != 4) b.refuse("matrix A needs 4 registers");
  } else {
    b.use_extra(b.operand(1), 'l');
  }
  plan.b = b.use_extra(b.operand(2), 'l');
  const unsigned shift = sparse ? 2 : 0;  // the metadata and its selector
  if (sparse) {
    form.sparse = true;
    plan.metadata = b.use_extra(b.operand(3), 'w');
    const auto selector = b.integer(b.operand(4), 0, sparsity_selectors(a, k) - 1, "the sparsity selector");
    form.sparsity = {k, static_cast<int>(selector), true};
  }
  // scale-d [, imm-scale-a, imm-scale-b [, imm-trans-a, imm-trans-b]]; integer types have none of the
  // immediates.
  plan.scale_d = b.use_extra(b.operand(3 + shift), 'P');
  const bool sixteen_bit = a == ElementType::kF16 || a == ElementType::kBf16;
  const bool integer = d == ElementType::kS32;
  const unsigned transposes = sixteen_bit ? (a_in_registers ? 1 : 2) : 0,
                 wanted = (integer ? 4 : 6 + transposes) + shift;
  b.expect_count(wanted, wanted);
  if (!integer) {
    for (const unsigned at : {4u, 5u}) {
      const std::int64_t sign = b.integer(b.operand(at + shift));
      if (sign != 1 && sign != -1) b.refuse("imm-scale must be 1 or -1");
      (at == 4 ? form.negate_a : form.negate_b) = sign < 0;
    }
    if (transposes == 2)
      form.a_major = static_cast<Major>(b.integer(b.operand(6 + shift), 0, 1, "imm-trans-a"));
    if (transposes > 0)
      form.b_major = static_cast<Major>(b.integer(b.operand(wanted - 1), 0, 1, "imm-trans-b"));
  }
  form.saturate = b.has("satfinite");
  b.extra().payload = std::move(plan);
  b.fills_later();
}

const Inst* commit_group(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  async_engine(w).warpgroup(w).commit_group(w);
  return i + 1;
}

const Inst* wait_group(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  if (!async_engine(w).warpgroup(w).wait_group(w, static_cast<std::uint32_t>(i->imm))) {
    return block(w, i, Wait::kAsync, wait_key(w));
  }
  return i + 1;
}

const Inst* fence(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  return i + 1;
}

void build_nothing(Builder& b) {
  b.expect_count(0, 0);
}

void build_wait_group(Builder& b) {
  b.expect_count(1, 1);
  b.inst.imm = b.integer(b.operand(0), 0, 7, "the number of groups");
  b.effects.count = static_cast<std::int16_t>(b.inst.imm);
  b.filled_here(b.inst.imm == 0);
}

// "m64n8k16|m64n16k16|…"
std::string shapes(int k, bool integer) {
  std::string text;
  for (int n = 8; n <= 256; n += 8) {
    if (integer && n > 32 && n % 16 != 0) continue;
    text += (text.empty() ? "" : "|") + ("m64n" + std::to_string(n)) + "k" + std::to_string(k);
  }
  return text;
}

}  // namespace

void register_wgmma(Table& t) {
  t.family("Tensor cores: wgmma", InstClass::kMatrix);
  const std::string head = "wgmma.mma_async.sync.aligned.{", sparse = "wgmma.mma_async.sp.sync.aligned.{";
  static const std::string rows[] = {
      sparse + shapes(32, false) + "}.{f32|f16}.f16.f16",
      sparse + shapes(32, false) + "}.f32.bf16.bf16",
      sparse + shapes(16, false) + "}.f32.tf32.tf32",
      sparse + shapes(64, false) + "}.{f32|f16}.{e4m3|e5m2}.{e4m3|e5m2}",
      sparse + shapes(64, true) + "}[.satfinite].s32.{s8|u8}.{s8|u8}",
      head + shapes(256, true) + "}.s32.b1.b1.and.popc",
      head + shapes(16, false) + "}.{f32|f16}.f16.f16",
      head + shapes(16, false) + "}.f32.bf16.bf16",
      head + shapes(8, false) + "}.f32.tf32.tf32",
      head + shapes(32, false) + "}.{f32|f16}.{e4m3|e5m2}.{e4m3|e5m2}",
      head + shapes(32, true) + "}[.satfinite].s32.{s8|u8}.{s8|u8}",
  };
  constexpr Effects kMultiplies = does::issues(Event::kMma, Cost::kWgmma, TaintRule::kWgmma)
                                      .with(&Effects::releases, std::uint8_t{kIssuesWgmma});
  for (const std::string& row : rows) t.row(row.c_str(), kMultiplies, build_mma_async, mma_async);
  t.row("wgmma.fence.sync.aligned",
        does::settles(FenceKind::kWgmma, Event::kFence, Cost::kWgmmaFence, TaintRule::kCompute,
                      Motion::kOrdered),
        build_nothing, fence);
  t.row("wgmma.commit_group.sync.aligned", does::commits(GroupKind::kWgmma), build_nothing, commit_group);
  t.row("wgmma.wait_group.sync.aligned", does::waits_for(GroupKind::kWgmma, Cost::kWgmmaWait),
        build_wait_group, wait_group);
}

}  // namespace sglab::emu
