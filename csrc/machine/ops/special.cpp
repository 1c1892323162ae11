#include "machine/front/special.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/decoder.hpp"

// Special registers, address windows, and instructions without effect in a functional model.
namespace sglab::emu {
namespace {

template <class T>
T* out(Warp& w, Ref ref) {
  return reinterpret_cast<T*>(w.bank[0] + ref);
}
template <class T>
const T* in(const Warp& w, Ref ref) {
  return reinterpret_cast<const T*>(w.bank[ref >> 31] + (ref & ~kConstantRef));
}

std::uint64_t nanoseconds(const Warp& w) {
  if (w.launch->replayed) return w.cluster->executed + w.executed;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) -
         w.cluster->started;
}

std::uint32_t thread_index(const Warp& w, int lane, unsigned dimension) {
  const auto& block = w.launch->config.block;
  const std::uint32_t linear = w.index * 32 + static_cast<std::uint32_t>(lane);
  return dimension == 0   ? linear % block[0]
         : dimension == 1 ? linear / block[0] % block[1]
                          : linear / block[0] / block[1];
}

// A value that all lanes share. A clock tick is a warp-instruction of the cluster.
std::uint64_t grid_workspace(const Warp& w) {
  return reinterpret_cast<std::uint64_t>(w.launch->grid_workspace.data());
}

std::uint64_t uniform(const Warp& w, Special special) {
  const LaunchConfig& config = w.launch->config;
  const Cta& cta = *w.cta;
  const auto at = [&](Special first) {
    return static_cast<unsigned>(special) - static_cast<unsigned>(first);
  };
  const std::uint32_t shared = w.cluster->shared_bytes;
  switch (special) {
    case Special::kNtidX:
    case Special::kNtidY:
    case Special::kNtidZ:
      return config.block[at(Special::kNtidX)];
    case Special::kCtaidX:
    case Special::kCtaidY:
    case Special::kCtaidZ:
      return cta.index[at(Special::kCtaidX)];
    case Special::kNctaidX:
    case Special::kNctaidY:
    case Special::kNctaidZ:
      return config.grid[at(Special::kNctaidX)];
    case Special::kClusteridX:
    case Special::kClusteridY:
    case Special::kClusteridZ:
      return w.cluster->position[at(Special::kClusteridX)];
    case Special::kNclusteridX:
    case Special::kNclusteridY:
    case Special::kNclusteridZ:
      return w.launch->clusters[at(Special::kNclusteridX)];
    case Special::kClusterCtaidX:
    case Special::kClusterCtaidY:
    case Special::kClusterCtaidZ:
      return cta.in_cluster[at(Special::kClusterCtaidX)];
    case Special::kClusterNctaidX:
    case Special::kClusterNctaidY:
    case Special::kClusterNctaidZ:
      return config.cluster[at(Special::kClusterNctaidX)];
    case Special::kClusterCtarank:
      return cta.rank;
    case Special::kClusterNctarank:
      return w.cluster->ctas.size();
    case Special::kWarpid:
      return w.index;
    case Special::kNwarpid:
      return cta.warp_count;
    case Special::kSmid:
      return (w.cluster->index * w.cluster->ctas.size() + cta.rank) % std::max(config.sms, 1u);
    case Special::kNsmid:
      return std::max(config.sms, 1u);
    case Special::kClock:
    case Special::kClock64:
      return w.cluster->executed + w.executed;
    case Special::kClockHi:
      return (w.cluster->executed + w.executed) >> 32;
    case Special::kGlobaltimer:
    case Special::kGlobaltimerLo:
      return nanoseconds(w);
    case Special::kGlobaltimerHi:
      return nanoseconds(w) >> 32;
    case Special::kDynamicSmemSize:
      return config.dynamic_shared;
    case Special::kTotalSmemSize:
    case Special::kAggrSmemSize:
      return shared - kSharedReserved;
    case Special::kReservedSmem1:
      return kSharedForGroups;
    case Special::kEnvreg1:
      return grid_workspace(w) >> 32;
    case Special::kEnvreg2:
      return grid_workspace(w);
    case Special::kReservedSmemEnd:
    case Special::kReservedSmemCap:
      return kSharedReserved;
    case Special::kWarpSz:
      return 32;
    default:
      return 0;  // %gridid, %reserved_smem_offset_begin and _0, %envreg0, %current_graph_exec
  }
}

std::uint32_t by_lane(const Warp& w, Special special, int lane) {
  switch (special) {
    case Special::kTidX:
    case Special::kTidY:
    case Special::kTidZ:
      return thread_index(w, lane, static_cast<unsigned>(special) - static_cast<unsigned>(Special::kTidX));
    case Special::kLaneid:
      return static_cast<std::uint32_t>(lane);
    case Special::kLanemaskEq:
      return 1u << lane;
    case Special::kLanemaskLt:
      return (1u << lane) - 1;
    case Special::kLanemaskLe:
      return (2u << lane) - 1;
    case Special::kLanemaskGt:
      return ~((2u << lane) - 1);
    default:
      return ~((1u << lane) - 1);  // ge
  }
}

bool differs_by_lane(Special s) {
  return (s >= Special::kTidX && s <= Special::kTidZ) || s == Special::kLaneid ||
         (s >= Special::kLanemaskEq && s <= Special::kLanemaskGt);
}

template <class T>
const Inst* special(Warp& w, const Inst* i) {
  T* const d = out<T>(w, i->d);
  const auto which = static_cast<Special>(i->imm);
  if (which == Special::kTidX && w.launch->config.block[1] * w.launch->config.block[2] == 1) {
    for (std::uint32_t l = 0; l < 32; ++l) d[l] = static_cast<T>(w.index * 32 + l);
  } else if (differs_by_lane(which)) {
    for (int l = 0; l < 32; ++l) d[l] = static_cast<T>(by_lane(w, which, l));
  } else {
    const T value = static_cast<T>(uniform(w, which));
    for (int l = 0; l < 32; ++l) d[l] = value;
  }
  return i + 1;
}

template <class T>
const Inst* window(Warp& w, const Inst* i) {
  T* const d = out<T>(w, i->d);
  const T value = static_cast<T>(w.cta->window + static_cast<std::uint64_t>(i->imm));
  for (int l = 0; l < 32; ++l) d[l] = value;
  return i + 1;
}

const Inst* explicit_cluster(Warp& w, const Inst* i) {
  w.predicates[i->d] = w.cluster->ctas.size() > 1 ? 0xffffffffu : 0;
  return i + 1;
}

std::uint64_t aperture_of(const Builder& b) {
  if (b.has("shared") || b.has("shared::cta") || b.has("shared::cluster")) return kSharedAperture;
  if (b.has("local")) return kLocalAperture;
  if (b.has("param") || b.has("param::entry")) return kParamAperture;
  return 0;
}

const Inst* cvta(Warp& w, const Inst* i) {
  const auto* const a = in<std::uint64_t>(w, i->a);
  auto* const d = out<std::uint64_t>(w, i->d);
  const auto base = static_cast<std::uint64_t>(i->imm);
  for (int l = 0; l < 32; ++l) d[l] = a[l] | base;
  return i + 1;
}

const Inst* cvta_to(Warp& w, const Inst* i) {
  const auto* const a = in<std::uint64_t>(w, i->a);
  auto* const d = out<std::uint64_t>(w, i->d);
  const auto base = static_cast<std::uint64_t>(i->imm);
  for (int l = 0; l < 32; ++l) d[l] = a[l] & ~base;
  return i + 1;
}

// cvta{.to}.space.u64 d, a; where a may be a variable.
void build_cvta(Builder& b) {
  b.expect_count(2, 2);
  b.use(Field::kA, b.operand(1), 'l');
  b.def(Field::kD, b.operand(0), 'l');
  b.inst.imm = static_cast<std::int64_t>(aperture_of(b));
  b.lanewise('l', b.has("to") ? cvta_to : cvta);
}

// Constant memory has no window of its own: it is the part of the module's image that is only read.
bool is_constant(const Warp& w, std::uint64_t address) {
  const Image& image = *w.program->image;
  return address >= image.constants_begin() && address < image.constants_end();
}

const Inst* isspacep(Warp& w, const Inst* i) {
  const auto* const a = in<std::uint64_t>(w, i->a);
  const auto base = static_cast<std::uint64_t>(i->imm);
  const auto wanted = static_cast<Space>(i->mode);
  std::uint32_t result = 0;
  for (int l = 0; l < 32; ++l) {
    bool inside = (a[l] & kApertureMask) == base;
    if (wanted == Space::kShared)
      inside = inside && (a[l] & ~kApertureMask) >> kSharedRankShift == w.cta->rank;
    if (base == 0) inside = inside && is_constant(w, a[l]) == (wanted == Space::kConst);
    result |= static_cast<std::uint32_t>(inside) << l;
  }
  w.predicates[i->d] = result;
  return i + 1;
}

void build_isspacep(Builder& b) {
  b.expect_count(2, 2);
  b.use(Field::kA, b.operand(1), 'l');
  b.def(Field::kD, b.operand(0), 'p');
  b.inst.target = 2;
  const bool own = b.has("shared") || b.has("shared::cta");
  b.inst.imm = static_cast<std::int64_t>(aperture_of(b));
  b.inst.mode = static_cast<std::uint8_t>(own              ? Space::kShared
                                          : b.has("const") ? Space::kConst
                                                           : Space::kGeneric);
  b.lanewise('p', isspacep);
}

// mapa: the same shared variable in the CTA of another rank. Generic addresses keep their aperture.
template <class T>
const Inst* mapa(Warp& w, const Inst* i) {
  const T* const a = in<T>(w, i->a);
  const auto* const rank = in<std::uint32_t>(w, i->b);
  T* const d = out<T>(w, i->d);
  constexpr T kRanks = static_cast<T>(0xff) << kSharedRankShift;
  for (int l = 0; l < 32; ++l) d[l] = (a[l] & ~kRanks) | static_cast<T>(rank[l] & 0xff) << kSharedRankShift;
  return i + 1;
}

template <class T>
const Inst* getctarank(Warp& w, const Inst* i) {
  const T* const a = in<T>(w, i->a);
  auto* const d = out<std::uint32_t>(w, i->d);
  for (int l = 0; l < 32; ++l) d[l] = static_cast<std::uint32_t>(a[l] >> kSharedRankShift) & 0xff;
  return i + 1;
}

const Inst* nothing(Warp&, const Inst* i) {
  return i + 1;
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
  auto* const d = out<std::uint64_t>(w, i->d);
  for (int l = 0; l < 32; ++l) d[l] = static_cast<std::uint64_t>(i->imm);
  return i + 1;
}

// Cache policies have no effect here; they differ by their value only.
void build_policy(Builder& b) {
  b.def(Field::kD, b.operand(0), 'l');
  b.inst.imm = 0x12f0000000000000;
  b.lanewise('l', policy);
}

void register_without_effect(Table& t) {
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
  t.row("setmaxnreg.{inc|dec}.sync.aligned.u32", does::hints(Motion::kFixed), ignore_operands, nothing);
  t.row("nanosleep.u32", does::hints(Motion::kFixed), build_sleep);
}

}  // namespace

void register_special(Table& t) {
  t.support.special16 = special<std::uint16_t>;
  t.support.special32 = special<std::uint32_t>;
  t.support.special64 = special<std::uint64_t>;
  t.support.window32 = window<std::uint32_t>;
  t.support.window64 = window<std::uint64_t>;
  t.support.explicit_cluster = explicit_cluster;
  t.family("Address windows", InstClass::kMove);
  t.row("cvta[.to].{global|shared|shared::cta|shared::cluster|local|const|param|param::entry}.u64",
        does::computes(Cost::kFree).yielding(Value::kCopy), build_cvta);
  t.row("isspacep.{global|shared|shared::cta|shared::cluster|local|const|param}", does::computes(Cost::kAlu),
        build_isspacep);
  t.effects(does::computes(Cost::kAlu));
  t.alu("mapa[.shared::cluster].u32", "www", does::computes(Cost::kAlu).yielding(Value::kCopy),
        mapa<std::uint32_t>);
  t.alu("mapa[.shared::cluster].u64", "llw", does::computes(Cost::kAlu).yielding(Value::kCopy),
        mapa<std::uint64_t>);
  t.alu("getctarank[.shared::cluster].u32", "ww", getctarank<std::uint32_t>);
  t.alu("getctarank[.shared::cluster].u64", "wl", getctarank<std::uint64_t>);
  register_without_effect(t);
}

}  // namespace sglab::emu
