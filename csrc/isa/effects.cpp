#include "isa/effects.hpp"

#include <algorithm>
#include <utility>

namespace sglab::emu {
namespace {

using Parts = std::span<const std::string_view>;

bool has(Parts parts, std::string_view wanted) {
  return std::find(parts.begin(), parts.end(), wanted) != parts.end();
}

bool has_any(Parts parts, std::initializer_list<std::string_view> wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](std::string_view one) { return has(parts, one); });
}

bool mentions(Parts parts, std::string_view text) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view one) { return one.find(text) != std::string_view::npos; });
}

bool is_integer(Type type) {
  return Type::kU8 <= type && type <= Type::kS64;
}

bool is_half(Type type) {
  return Type::kF16 <= type && type <= Type::kBf16x2;
}

template <class T, std::size_t kNames>
void name(Parts parts, const std::pair<std::string_view, T> (&names)[kNames], bool& named, T& value) {
  for (const auto& [text, meant] : names) {
    if (!has(parts, text)) continue;
    named = true;
    value = meant;
    return;
  }
}

void resolve_order(Effects& e, Parts parts) {
  constexpr std::pair<std::string_view, Order> kOrders[] = {
      {"volatile", Order::kVolatile}, {"relaxed", Order::kRelaxed}, {"acquire", Order::kAcquire},
      {"release", Order::kRelease},   {"acq_rel", Order::kAcqRel},  {"sc", Order::kSc},
  };
  constexpr std::pair<std::string_view, Scope> kScopes[] = {{"cta", Scope::kCta},
                                                            {"cluster", Scope::kCluster},
                                                            {"gpu", Scope::kGpu},
                                                            {"gl", Scope::kGpu},
                                                            {"sys", Scope::kSys}};
  name(parts, kOrders, e.ordered, e.order);
  name(parts, kScopes, e.scoped, e.scope);
}

void resolve_space(Effects& e, Parts parts) {
  for (const std::string_view part : parts) {
    const Space named = part == "global"             ? Space::kGlobal
                        : part.starts_with("shared") ? Space::kShared
                        : part == "local"            ? Space::kLocal
                        : part == "const"            ? Space::kConst
                        : part.starts_with("param")  ? Space::kParam
                                                     : Space::kGeneric;
    if (named == Space::kGeneric) continue;
    e.space = named;
    if (named == Space::kConst || named == Space::kParam) e.act = Act::kParameter;
    return;
  }
}

unsigned element_bytes(Type type, std::string_view name) {
  if (!name.starts_with("e4m3") && !name.starts_with("e5m2")) return type_bytes(type);
  return name.ends_with("x4") ? 4 : name.ends_with("x2") ? 2 : 1;
}

// What its lanes move, how the caches treat it, and what it costs by its space.
void resolve_access(Effects& e, Parts parts) {
  resolve_space(e, parts);
  unsigned bytes = element_bytes(e.type, parts.back());
  for (const std::string_view part : parts) {
    if (part.size() == 2 && part[0] == 'v') bytes *= static_cast<unsigned>(part[1] - '0');
  }
  e.bytes = static_cast<std::uint8_t>(bytes);
  e.constant = has(parts, "nc");
  e.streaming = has_any(parts, {"cs", "L2::evict_first"});
  e.cached = e.reads && !e.writes && !e.ordered && !has_any(parts, {"cg", "cv", "L1::no_allocate"});
  if (e.ordered && e.act == Act::kAccess) e.motion = Motion::kFixed;
  if (e.space == Space::kShared)
    e.cost = e.atomic ? Cost::kSharedAtomic : e.reads ? Cost::kSharedLoad : Cost::kSharedStore;
  if (e.space == Space::kParam) e.cost = Cost::kFree;
}

void resolve_fence(Effects& e, Parts parts) {
  if (e.fence == FenceKind::kProxyAsync) {
    if (has(parts, "global")) e.space = Space::kGlobal;
    if (mentions(parts, "shared::")) e.space = Space::kShared;
  }
  // It names the map that it makes visible.
  e.reads = e.fence == FenceKind::kProxyTensormap && e.order == Order::kAcquire;
  if (e.cost == Cost::kFence && e.scope == Scope::kCta) e.cost = Cost::kFenceLight;
  if (e.cost == Cost::kFenceProxy && e.scoped && e.scope == Scope::kCta) e.cost = Cost::kFenceLight;
}

Cost special_cost(Cost exact, Type type, Parts parts) {
  if (!has(parts, "approx")) return exact;
  return has(parts, "ftz") || is_half(type) ? Cost::kSpecial : Cost::kSpecialFull;
}

Cost divide_cost(Type type, Parts parts) {
  if (type != Type::kF32)
    return is_integer(type) && type_bytes(type) == 8 ? Cost::kDivideWide : Cost::kDivideLong;
  return has(parts, "approx") ? Cost::kDivideApprox : has(parts, "full") ? Cost::kDivideFull : Cost::kDivide;
}

// Between integers: what widens, or keeps the width, costs nothing.
bool renames(Type to, Type from) {
  if (type_bytes(to) == 8) return true;
  if (to == Type::kU32) return !is_signed(from) && type_bytes(from) <= 8;
  return from == Type::kU32 && (to == Type::kU16 || to == Type::kS32);
}

Cost convert_cost(Type to, Type from, Parts parts) {
  const bool wide = type_bytes(to) == 8 || type_bytes(from) == 8;
  if (is_integer(to) && is_integer(from)) {
    if (!has(parts, "sat") && renames(to, from)) return Cost::kFree;
    return wide ? Cost::kConvertWide : Cost::kAlu;
  }
  if (is_integer(to)) return Cost::kSpecial;
  if (wide) return Cost::kConvertWide;
  if (!is_integer(from) || to != Type::kF32) return Cost::kAlu;
  return type_bytes(from) < 4 ? Cost::kSpecial : Cost::kIntegerToFloat;
}

Cost resolve_cost(const Effects& e, Parts parts) {
  const bool wide = type_bytes(e.type) == 8;
  switch (e.cost) {
    case Cost::kLogic:
      return wide ? Cost::kLogicWide : Cost::kAlu;
    case Cost::kIntegerAdd:
      return wide ? Cost::kIntegerAddWide : e.cost;
    case Cost::kMultiply:
      return wide && has(parts, "lo") ? Cost::kMultiplyWide : e.cost;
    case Cost::kDivide:
      return divide_cost(e.type, parts);
    case Cost::kFloat:
      if (is_half(e.type) && e.to != Type::kF32) return Cost::kHalf;
      return e.type == Type::kF64 ? Cost::kDouble : e.type == Type::kF32x2 ? Cost::kFloatPair : e.cost;
    case Cost::kReciprocal:
    case Cost::kSquareRoot:
    case Cost::kSpecialFull:
      return special_cost(e.cost, e.type, parts);
    case Cost::kConvert:
      return convert_cost(e.to, e.type, parts);
    case Cost::kClusterArrive:
      return e.order == Order::kRelaxed ? Cost::kClusterArriveRelaxed : e.cost;
    default:
      return e.cost;
  }
}

TaintRule resolve_taint(const Effects& e, Parts parts) {
  const bool packed = !parts.empty() && parts.back().ends_with("x2");
  if (e.taint == TaintRule::kConvert) {
    if (parts.size() > 1 && parts.back() == "f32" && parts[parts.size() - 2].ends_with("x2"))
      return TaintRule::kConvertPair;
    return is_integer(e.type) && !has(parts, "sat") ? TaintRule::kConvert : TaintRule::kCompute;
  }
  if (e.taint == TaintRule::kPermute && e.type != Type::kB32)
    return TaintRule::kCompute;  // not the plain mode
  if (e.taint == TaintRule::kCompute && has_any(parts, {"and", "or"})) return TaintRule::kLogic;  // setp, set
  return e.taint == TaintRule::kCompute && packed ? TaintRule::kHalves : e.taint;
}

// Matrices of an ldmatrix or stmatrix.
std::int16_t matrices(Parts parts) {
  return has(parts, "x4") ? 4 : has(parts, "x2") ? 2 : 1;
}

}  // namespace

Effects resolve(const Effects& row, Parts parts) {
  Effects e = row;
  if (!parts.empty()) e.type = type_from_name(parts.back());
  if (parts.size() > 1) e.to = type_from_name(parts[parts.size() - 2]);
  resolve_order(e, parts);
  if (e.act == Act::kAccess) resolve_access(e, parts);
  if (e.act == Act::kMatrixTile) resolve_space(e, parts);
  if (e.act == Act::kFence) resolve_fence(e, parts);
  if (e.act == Act::kMatrixRows) e.count = matrices(parts);
  if (e.act == Act::kWaitGroup) e.read_only = has(parts, "read");
  e.cost = resolve_cost(e, parts);
  e.taint = resolve_taint(e, parts);
  const bool bitwise = e.value == Value::kAnd || e.value == Value::kOr;
  if (!bitwise && type_bytes(e.type) < 4) e.value = Value::kOther;  // a sum that wraps is no address
  e.multicast = has(parts, "multicast::cluster");
  if (e.barrier == BarrierAct::kWait && has(parts, "test_wait")) e.barrier = BarrierAct::kTest;
  if (e.event == Event::kMma) e.sparse = has_any(parts, {"sp", "sp::ordered_metadata"});
  if (e.event == Event::kMma) e.weight_stationary = has(parts, "ws");
  e.cta_group = has(parts, "cta_group::2") ? 2 : has(parts, "cta_group::1") ? 1 : 0;
  return e;
}

std::uint8_t motion_bits(const Effects& e) {
  constexpr std::uint8_t kReadsShared = 1, kReadsGlobal = 4, kBranch = 16, kFixed = 32;
  constexpr std::uint8_t kAll = kReadsShared | kReadsGlobal;
  switch (e.motion) {
    case Motion::kBranch:
      return kBranch;
    case Motion::kFixed:
      return kFixed;
    case Motion::kOrdered:
      return 2 * kAll;
    case Motion::kFree:
      break;
  }
  if ((e.act != Act::kAccess && e.act != Act::kMatrixRows) || e.constant) return 0;
  const std::uint8_t spaces = e.space == Space::kShared    ? kReadsShared
                              : e.space == Space::kGeneric ? kAll
                                                           : kReadsGlobal;
  return static_cast<std::uint8_t>(e.writes ? 2 * spaces : spaces);
}

bool polls(const Effects& e) {
  return e.act == Act::kMbarrierWait || (e.act == Act::kAccess && e.returns);
}

bool meets_clusters(const Effects& e) {
  if (e.act == Act::kFence) return e.fence == FenceKind::kThread && e.scope >= Scope::kGpu;
  if (e.space != Space::kGlobal && e.space != Space::kGeneric) return false;
  return e.atomic || (e.act == Act::kAccess && e.order != Order::kWeak);
}

}  // namespace sglab::emu
