#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/engine/registers.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"

// Cache control and fences, which have little or no effect in a functional model.
namespace sglab::emu {
namespace {

const Inst* nothing(Warp&, const Inst* i) {
  return i + 1;
}

// Registers are no resource here.
const Inst* set_registers(Warp& w, const Inst* i) {
  return gather_warp(w, i) ? i + 1 : block_for_lanes(w, i, 0xffffffffu);
}

const Inst* fence_threads(Warp& w, const Inst* i) {
  if (w.launch->concurrent) __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return i + 1;
}

const Inst* sleep(Warp& w, const Inst* i) {
  w.yield = true;
  return meet(w, static_cast<std::uint32_t>(i - w.code) + 1);
}

void build_sleep(Builder& b) {
  b.expect_count(1, 1);
  b.use(Field::kA, b.operand(0), 'w');
  b.inst.body = sleep;
}

void ignore_operands(Builder&) {}

// [address], size: of no effect, but sanitizers ask which map is meant.
void build_map_fence(Builder& b) {
  b.expect_count(2, 2);
  b.address(b.operand(0));
}

const Inst* policy(Warp& w, const Inst* i) {
  auto* const d = write_register<std::uint64_t>(w, i->d);
  for (int l = 0; l < 32; ++l) d[l] = static_cast<std::uint64_t>(i->imm);
  return i + 1;
}

// Cache policies have no effect here; they differ by their value only.
void build_policy(Builder& b) {
  b.def(Field::kD, b.operand(0), 'l');
  b.inst.imm = 0x12f0000000000000;
  b.lanewise('l', policy);
}

}  // namespace

void register_fences(Table& t) {
  t.family("Cache control and fences", InstClass::kOther);
  t.row("prefetch[.global|.local].{L1|L2|L2::evict_last|L2::evict_normal}", does::hints(Motion::kOrdered),
        ignore_operands, nothing);
  t.row("prefetch[.const|.param].tensormap", does::hints(Motion::kOrdered), ignore_operands, nothing);
  t.row("prefetchu.L1", does::hints(Motion::kOrdered), ignore_operands, nothing);
  t.row("applypriority[.global].L2::evict_normal", does::hints(), ignore_operands, nothing);
  t.row("discard[.global].L2", does::hints(Motion::kOrdered), ignore_operands, nothing);
  t.row(
      "createpolicy.fractional.{L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged}"
      "[.L2::evict_first|.L2::evict_unchanged].b64",
      does::computes(Cost::kIssue), build_policy);
  t.row(
      "createpolicy.range[.global].{L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged}"
      "[.L2::evict_first|.L2::evict_unchanged].b64",
      does::computes(Cost::kIssue), build_policy);
  t.row("createpolicy.cvt.L2.b64", does::computes(Cost::kIssue), build_policy);
  t.row("membar.{cta|gl|sys}", does::fences(FenceKind::kThread, Cost::kFence, Order::kSc), ignore_operands,
        fence_threads);
  t.row("fence[.sc|.acq_rel|.acquire|.release].{cta|cluster|gpu|sys}",
        does::fences(FenceKind::kThread, Cost::kFence), ignore_operands, fence_threads);
  t.row("fence.proxy.alias", does::fences(FenceKind::kProxyAlias, Cost::kFenceProxy), ignore_operands,
        nothing);
  t.row("membar.proxy.alias", does::fences(FenceKind::kProxyAlias, Cost::kFenceProxy), ignore_operands,
        nothing);
  t.row("fence.proxy.async[.global|.shared::cta|.shared::cluster]",
        does::fences(FenceKind::kProxyAsync, Cost::kFenceLight), ignore_operands, nothing);
  t.row("fence.proxy.tensormap::generic.acquire.{cta|cluster|gpu|sys}",
        does::fences(FenceKind::kProxyTensormap, Cost::kFenceProxy), build_map_fence, nothing);
  t.row("fence.proxy.tensormap::generic.release.{cta|cluster|gpu|sys}",
        does::fences(FenceKind::kProxyTensormap, Cost::kFenceProxy), ignore_operands, nothing);
  t.row("fence.mbarrier_init.release.cluster", does::fences(FenceKind::kMbarrierInit, Cost::kFenceLight),
        ignore_operands, nothing);
  t.row("fence.{acquire|release}.{sync_restrict::shared::cta|sync_restrict::shared::cluster}.cluster",
        does::fences(FenceKind::kThread, Cost::kFence), ignore_operands, nothing);
  t.row(
      "fence.proxy.async::generic.{acquire|release}.{sync_restrict::shared::cta|sync_restrict::shared::"
      "cluster}.cluster",
      does::fences(FenceKind::kProxyAsync, Cost::kFenceLight), ignore_operands, nothing);
  t.row("griddepcontrol.launch_dependents", does::computes(Cost::kIssue).moving(Motion::kFixed),
        ignore_operands, nothing);
  t.row("griddepcontrol.wait",
        does::settles(FenceKind::kGridDependency, Event::kWait, Cost::kIssue, TaintRule::kCompute,
                      Motion::kFixed),
        ignore_operands, nothing);
  t.row("setmaxnreg.{inc|dec}.sync.aligned.u32", does::hints(Motion::kFixed), ignore_operands, set_registers);
  t.row("nanosleep.u32", does::hints(Motion::kFixed), build_sleep);
}

}  // namespace sglab::emu
