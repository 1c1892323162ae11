#pragma once

#include <cstdint>
#include <string_view>

namespace sglab::emu {

// Special registers, in the order of kSpecialNames. Vector ones (%tid) are addressed by component.
enum class Special : std::uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
  kClusterCtaidX,
  kClusterCtaidY,
  kClusterCtaidZ,
  kClusterNctaidX,
  kClusterNctaidY,
  kClusterNctaidZ,
  kClusterCtarank,
  kClusterNctarank,
  kIsExplicitCluster,
  kLaneid,
  kWarpid,
  kNwarpid,
  kSmid,
  kNsmid,
  kGridid,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kClock,
  kClockHi,
  kClock64,
  kGlobaltimer,
  kGlobaltimerLo,
  kGlobaltimerHi,
  kDynamicSmemSize,
  kTotalSmemSize,
  kAggrSmemSize,
  kReservedSmemBegin,
  kReservedSmemEnd,
  kReservedSmemCap,
  kReservedSmem0,
  kReservedSmem1,
  kEnvreg0,
  kEnvreg1,
  kEnvreg2,
  kCurrentGraphExec,
  kWarpSz,
  kCount,
};

constexpr bool is_clock(Special special) {
  return Special::kClock <= special && special <= Special::kGlobaltimerHi;
}

// kCount for an unknown name. Names come as PTX spells them: "%tid.x", "WARP_SZ".
Special special_from_name(std::string_view name);

}  // namespace sglab::emu
