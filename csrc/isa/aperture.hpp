#pragma once

#include <cstdint>

// How a 64-bit generic address encodes its space. Global addresses are host addresses, which need 47 bits;
// the other windows are above them.
namespace sglab::emu {

constexpr std::uint64_t kSharedAperture = std::uint64_t{1} << 56;
constexpr std::uint64_t kLocalAperture = std::uint64_t{2} << 56;
constexpr std::uint64_t kParamAperture = std::uint64_t{3} << 56;
constexpr std::uint64_t kFunctionAperture = std::uint64_t{4} << 56;
constexpr std::uint64_t kApertureMask = std::uint64_t{0xff} << 56;

constexpr std::uint64_t without_aperture(std::uint64_t address) {
  return address & ~kApertureMask;
}

// A shared-memory address carries the CTA's rank in its cluster above the byte offset. The first kilobyte is
// the system's, as on sm_90 and later.
constexpr unsigned kSharedRankShift = 24;
constexpr std::uint32_t kSharedOffsetMask = (1u << kSharedRankShift) - 1;
constexpr std::uint32_t kSharedReserved = 0x400;
// The part of the reserved kilobyte that %reserved_smem_offset_1 names: cooperative groups keep state there.
constexpr std::uint32_t kSharedForGroups = 0x200;

// Parts of a shared::cluster address.
constexpr std::uint32_t rank_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address >> kSharedRankShift);
}
constexpr std::uint32_t offset_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address & kSharedOffsetMask);
}

}  // namespace sglab::emu
