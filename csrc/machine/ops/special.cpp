#include "machine/front/special.hpp"

#include <algorithm>
#include <chrono>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/engine/registers.hpp"
#include "machine/ops/register.hpp"

// Special registers.
namespace sglab::emu {
namespace {

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

std::uint64_t grid_workspace(const Warp& w) {
  return reinterpret_cast<std::uint64_t>(w.launch->grid_workspace.data());
}

// A value that all lanes share. A clock tick is a warp-instruction of the cluster.
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
  T* const d = write_register<T>(w, i->d);
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
  T* const d = write_register<T>(w, i->d);
  const T value = static_cast<T>(w.cta->window + static_cast<std::uint64_t>(i->imm));
  for (int l = 0; l < 32; ++l) d[l] = value;
  return i + 1;
}

const Inst* explicit_cluster(Warp& w, const Inst* i) {
  w.predicates[i->d] = w.cluster->ctas.size() > 1 ? 0xffffffffu : 0;
  return i + 1;
}

}  // namespace

void register_special(Support& support) {
  support.special16 = special<std::uint16_t>;
  support.special32 = special<std::uint32_t>;
  support.special64 = special<std::uint64_t>;
  support.window32 = window<std::uint32_t>;
  support.window64 = window<std::uint64_t>;
  support.explicit_cluster = explicit_cluster;
}

}  // namespace sglab::emu
