#include "isa/effect_kinds.hpp"

#include <array>
#include <cstddef>

namespace sglab::emu {
namespace {

template <class T>
constexpr auto kSize = static_cast<std::size_t>(T::kCount);

constexpr std::array<const char*, kSize<Act>> kActs{
    "",
    "branch",
    "branch table",
    "call",
    "exit",
    "trap",
    "access",
    "parameter",
    "matrix rows",
    "fence",
    "barrier arrive",
    "barrier wait",
    "cluster arrive",
    "cluster wait",
    "mbarrier",
    "mbarrier wait",
    "warp sync",
    "warp exchange",
    "issue",
    "issue by map",
    "commit group",
    "wait group",
    "tmem alloc",
    "tmem dealloc",
    "tmem relinquish",
    "tmem load",
    "tmem store",
    "replace map",
    "copy map",
    "matrix tile",
    "clear",
};

constexpr std::array<const char*, kSize<Event>> kEvents{
    "", "copy", "prefetch", "mma", "tmem", "commit", "wait", "arrive", "init", "fence",
};

constexpr std::array<const char*, kSize<Cost>> kCosts{
    "free",
    "issue",
    "alu",
    "logic",
    "logic wide",
    "integer add",
    "integer add wide",
    "multiply",
    "multiply wide",
    "divide",
    "divide approx",
    "divide full",
    "divide long",
    "divide wide",
    "float",
    "float pair",
    "half",
    "double",
    "reciprocal",
    "square root",
    "special",
    "special full",
    "sine",
    "count bits",
    "convert",
    "convert wide",
    "integer to float",
    "special register",
    "vote",
    "shuffle",
    "reduce",
    "match any",
    "match all",
    "global",
    "shared load",
    "shared store",
    "shared atomic",
    "matrix load",
    "matrix store",
    "barrier arrive",
    "barrier wait",
    "cluster arrive",
    "cluster arrive relaxed",
    "cluster wait",
    "mbarrier",
    "mbarrier arrive",
    "mbarrier wait",
    "copies arrive",
    "fence",
    "fence light",
    "fence proxy",
    "wgmma fence",
    "cp.async",
    "copy",
    "commit",
    "wait",
    "wgmma wait",
    "mma",
    "wgmma",
    "tcgen05",
    "tcgen05 commit",
    "tmem alloc",
    "tmem load",
    "tmem store",
    "tmem wait load",
    "tmem wait store",
};

constexpr const char* kTaintRules[] = {
    "compute",      "halves",     "parts",       "logic",   "carries", "convert",
    "convert pair", "shift left", "shift right", "permute", "pack",    "decide",
    "select",       "shuffle",    "warp wide",   "wgmma",   "access",  "matrix rows",
    "tmem load",    "tmem store", "control",     "nothing",
};
constexpr const char* kOrderNames[] = {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc"};
constexpr const char* kScopeNames[] = {"cta", "cluster", "gpu", "sys"};
constexpr std::array<const char*, kSize<BarrierAct>> kBarrierActs{"",          "init", "inval", "arrive",
                                                                  "expect_tx", "wait", "test"};
constexpr const char* kSpaces[] = {"", "generic", "global", "shared", "local", "param", "const"};

static_assert(kActs.back() != nullptr && kEvents.back() != nullptr && kCosts.back() != nullptr);

}  // namespace

const char* act_name(Act act) {
  return kActs[static_cast<std::size_t>(act)];
}
const char* event_name(Event event) {
  return kEvents[static_cast<std::size_t>(event)];
}
const char* cost_name(Cost cost) {
  return kCosts[static_cast<std::size_t>(cost)];
}
const char* taint_name(TaintRule rule) {
  return kTaintRules[static_cast<std::size_t>(rule)];
}
const char* order_name(Order order) {
  return kOrderNames[static_cast<std::size_t>(order)];
}
const char* scope_name(Scope scope) {
  return kScopeNames[static_cast<std::size_t>(scope)];
}
const char* space_name(Space space) {
  return kSpaces[static_cast<std::size_t>(space)];
}
const char* barrier_act_name(BarrierAct act) {
  return kBarrierActs[static_cast<std::size_t>(act)];
}

}  // namespace sglab::emu
