#pragma once

#include <bit>
#include <cstdint>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/registers.hpp"
#include "machine/engine/warp.hpp"
#include "machine/program/builder.hpp"

// Register and address access for instruction families that are compiled once.
namespace sglab::emu {

inline int first_lane(std::uint32_t mask) {
  return std::countr_zero(mask);
}

// Groups that a wait may leave open, as Effects::count can say it.
constexpr std::int64_t kMostGroups = 0x7fff;

// A memory operand: a base of some kind and an offset.
struct AddressOperand {
  AddressMode mode;
  Ref base;
  std::int64_t offset;
};

// The operand that Builder::address() left in the instruction.
inline AddressOperand main_address(const Inst* i) {
  return {static_cast<AddressMode>(i->mode), i->a, i->imm};
}
// One that Builder::address_extra() left in Extra.
inline AddressOperand extra_address(const Inst* i, const ExtraAddress& at) {
  return {at.mode, i->extra->refs[at.ref], at.offset};
}

inline std::uint64_t address_of(const Warp& w, const AddressOperand& at, int lane) {
  const auto offset = static_cast<std::uint64_t>(at.offset);
  switch (at.mode) {
    case AddressMode::kAbsolute:
      return offset;
    case AddressMode::kOwnCta:
      return w.cta->window + offset;
    case AddressMode::kReg32:
      return static_cast<std::uint32_t>(lanes32(w, at.base)[lane] + offset);
    case AddressMode::kReg64:
      return lanes64(w, at.base)[lane] + offset;
  }
  return offset;
}

// The same for all lanes, active or not.
inline void addresses_of(const Warp& w, const AddressOperand& at, std::uint64_t* out) {
  if (at.mode == AddressMode::kReg64) {
    const std::uint64_t* base = lanes64(w, at.base);
    for (int lane = 0; lane < 32; ++lane) out[lane] = base[lane] + static_cast<std::uint64_t>(at.offset);
    return;
  }
  if (at.mode == AddressMode::kReg32) {
    const std::uint32_t* base = lanes32(w, at.base);
    for (int lane = 0; lane < 32; ++lane) out[lane] = base[lane] + static_cast<std::uint32_t>(at.offset);
    return;
  }
  for (int lane = 0; lane < 32; ++lane) out[lane] = address_of(w, at, lane);
}

// A shared::cluster address: rank << 24 | offset. Takes .shared addresses and generic ones that point to
// shared memory.
inline std::uint32_t checked_shared(const Warp& w, const Inst* i, int lane, std::uint64_t address) {
  if (address >> 32 != 0 && (address & kApertureMask) != kSharedAperture) {
    raise_fault(w, i, lane, "out_of_bounds", "address " + hex(address) + " is not in shared memory");
  }
  return static_cast<std::uint32_t>(address);
}
inline std::uint32_t shared_address(const Warp& w, const Inst* i, const AddressOperand& at, int lane) {
  return checked_shared(w, i, lane, address_of(w, at, lane));
}

// Bytes [address, address + bytes) of a CTA's shared memory, or a fault.
inline std::uint8_t* shared_bytes(const Warp& w, const Inst* i, int lane, std::uint32_t address,
                                  std::uint32_t bytes) {
  Cluster& cluster = *w.cluster;
  const std::uint32_t rank = address >> kSharedRankShift, offset = address & kSharedOffsetMask;
  if (rank >= cluster.ctas.size() || offset < kSharedReserved || offset > cluster.shared_bytes ||
      cluster.shared_bytes - offset < bytes) {
    raise_fault(w, i, lane, "out_of_bounds",
                std::to_string(bytes) + " bytes at shared address " + hex(address) + " are outside the " +
                    std::to_string(cluster.shared_bytes) + " bytes of shared memory of " +
                    std::to_string(cluster.ctas.size()) + " CTAs");
  }
  return cluster.ctas[rank].shared + offset;
}

// .sync.aligned: all live lanes of the warp must execute the instruction together.
inline bool gather_warp(Warp& w, const Inst* i) {
  return gather(w, i, 0xffffffffu);
}

}  // namespace sglab::emu
