#include "machine/ops/floating.hpp"
#include "machine/ops/register.hpp"

// selp and slct: one of two values, by a predicate or a sign.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;

template <class T>
const Inst* select(Warp& w, const Inst* i) {
  const u32 p = predicate(w, i->c);
  choose(out<T>(w, i->d), in<T>(w, i->a), in<T>(w, i->b), p);
  return i + 1;
}

template <class T, bool Float>
const Inst* select_sign(Warp& w, const Inst* i) {
  const T *const a = in<T>(w, i->a), *const b = in<T>(w, i->b);
  if constexpr (Float) {
    const float* const c = in<float>(w, i->c);
    const float least = i->mode & kFtz ? -0x1.fffffcp-127f : 0.0f;  // of what counts as zero
    choose(out<T>(w, i->d), a, b, mask_of([=](int l) { return c[l] >= least; }));
  } else {
    const s32* const c = in<s32>(w, i->c);
    choose(out<T>(w, i->d), a, b, mask_of([=](int l) { return c[l] >= 0; }));
  }
  return i + 1;
}

}  // namespace

void register_selection(Table& t) {
  t.effects(does::computes(Cost::kLogic, TaintRule::kSelect));
  t.alu("selp.{b16|u16|s16}", "hhhp", select<u16>);
  t.alu("selp.{b32|u32|s32}", "wwwp", select<u32>);
  t.alu("selp.f32", "wffp", select<u32>);
  t.alu("selp.{b64|u64|s64}", "lllp", select<u64>);
  t.alu("selp.f64", "lddp", select<u64>);
  t.effects(does::computes(Cost::kAlu));
  t.alu("slct.{b32|u32|s32|f32}.s32", "wwww", select_sign<u32, false>);
  t.alu("slct.{b64|u64|s64|f64}.s32", "lllw", select_sign<u64, false>);
  t.alu("slct[.ftz].{b32|u32|s32|f32}.f32", "wwwf", select_sign<u32, true>);
  t.alu("slct[.ftz].{b64|u64|s64|f64}.f32", "lllf", select_sign<u64, true>);
}

}  // namespace sglab::emu::SGLAB_ISA
