// wgmma.mma_async and its fences and groups.

#include <cstring>

#include "machine/async/engine.hpp"
#include "machine/async/warpgroup.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_families.hpp"
#include "machine/tensor/fragments.hpp"

namespace sglab::emu {
namespace {

// Extra::refs: accumulators, then A (registers or a descriptor), B, scale-d. Values:
enum Part {
  kAccumulators,
  kARegisters,
  kScaleD,
  kN,
  kK,
  kAType,
  kBType,
  kDType,
  kAMajor,
  kBMajor,
  kNegateA,
  kNegateB,
  kSaturate,
  kParts
};

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
  const std::int64_t* v = extra.values.data();
  const int lane = first_lane(w.mask);
  const auto count = static_cast<std::size_t>(v[kAccumulators]),
             a_count = static_cast<std::size_t>(v[kARegisters]);
  Wgmma op;
  op.n = static_cast<int>(v[kN]);
  op.k = static_cast<int>(v[kK]);
  op.a_type = static_cast<ElementType>(v[kAType]);
  op.b_type = static_cast<ElementType>(v[kBType]);
  op.d_type = static_cast<ElementType>(v[kDType]);
  op.a_major = static_cast<Major>(v[kAMajor]);
  op.b_major = static_cast<Major>(v[kBMajor]);
  op.negate_a = v[kNegateA] != 0;
  op.negate_b = v[kNegateB] != 0;
  op.saturate = v[kSaturate] != 0;
  op.scale_d = (predicate_lanes(w, extra.refs[static_cast<std::size_t>(v[kScaleD])]) >> lane & 1u) != 0;
  std::vector<std::uint32_t> a;
  if (a_count > 0) {
    a.resize(32 * a_count);
    for (std::size_t r = 0; r < a_count; ++r) std::memcpy(&a[32 * r], lanes32(w, extra.refs[count + r]), 128);
  } else {
    op.a = lanes64(w, extra.refs[count])[lane];
    op.a_smem = decode_wgmma_descriptor(op.a);
  }
  const std::size_t b_ref = count + (a_count > 0 ? a_count : 1);
  op.b = lanes64(w, extra.refs[b_ref])[lane];
  op.b_smem = decode_wgmma_descriptor(op.b);
  const std::vector<Ref> registers(extra.refs.begin(),
                                   extra.refs.begin() + static_cast<std::ptrdiff_t>(count));
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
  const int wanted_k = 256 / element_bits(a);
  if (n < 8 || n > 256 || n % 8 != 0 || k != wanted_k)
    b.refuse("shape " + std::string(shape) + " does not exist for this type");
  std::vector<std::int64_t> values(kParts);
  values[kN] = n, values[kK] = k;
  values[kAType] = static_cast<int>(a), values[kBType] = static_cast<int>(right),
  values[kDType] = static_cast<int>(d);
  const unsigned registers = b.update_vector(b.operand(0), 'w');
  if (registers != static_cast<unsigned>(WgmmaAccumulators::registers(d, n))) {
    b.refuse("expected " + std::to_string(WgmmaAccumulators::registers(d, n)) + " accumulator registers");
  }
  values[kAccumulators] = registers;
  const bool a_in_registers = b.operand(1).kind == OperandKind::kVector;
  if (a_in_registers) {
    values[kARegisters] = b.use_vector(b.operand(1), 'w');
    if (values[kARegisters] != 4) b.refuse("matrix A needs 4 registers");
  } else {
    b.use_extra(b.operand(1), 'l');
  }
  b.use_extra(b.operand(2), 'l');
  // scale-d [, imm-scale-a, imm-scale-b [, imm-trans-a, imm-trans-b]]; integer types have none of the
  // immediates.
  values[kScaleD] = b.use_extra(b.operand(3), 'P');
  const bool sixteen_bit = a == ElementType::kF16 || a == ElementType::kBf16;
  const bool integer = d == ElementType::kS32;
  const unsigned transposes = sixteen_bit ? (a_in_registers ? 1 : 2) : 0,
                 wanted = integer ? 4 : 6 + transposes;
  b.expect_count(wanted, wanted);
  if (!integer) {
    for (const unsigned at : {4u, 5u}) {
      const std::int64_t sign = b.integer(b.operand(at));
      if (sign != 1 && sign != -1) b.refuse("imm-scale must be 1 or -1");
      values[at == 4 ? kNegateA : kNegateB] = sign < 0 ? 1 : 0;
    }
    if (transposes == 2) values[kAMajor] = b.integer(b.operand(6));
    if (transposes > 0) values[kBMajor] = b.integer(b.operand(wanted - 1));
  }
  values[kSaturate] = b.has("satfinite") ? 1 : 0;
  b.extra().values = std::move(values);
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
  b.inst.imm = b.integer(b.operand(0));
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
  const std::string head = "wgmma.mma_async.sync.aligned.{";
  static const std::string rows[] = {
      head + shapes(16, false) + "}.{f32|f16}.f16.f16",
      head + shapes(16, false) + "}.f32.bf16.bf16",
      head + shapes(8, false) + "}.f32.tf32.tf32",
      head + shapes(32, false) + "}.{f32|f16}.{e4m3|e5m2}.{e4m3|e5m2}",
      head + shapes(32, true) + "}[.satfinite].s32.{s8|u8}.{s8|u8}",
  };
  for (const std::string& row : rows) t.row(row.c_str(), build_mma_async, mma_async);
  t.row("wgmma.fence.sync.aligned", build_nothing, fence);
  t.row("wgmma.commit_group.sync.aligned", build_nothing, commit_group);
  t.row("wgmma.wait_group.sync.aligned", build_wait_group, wait_group);
}

}  // namespace sglab::emu
