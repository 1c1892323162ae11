#pragma once

#include <cstdint>

#include "machine/engine/warp.hpp"

// A warp's registers. The 32 lanes of one are side by side; constants are stored 32-fold as well.
namespace sglab::emu {

inline const std::uint16_t* lanes16(const Warp& w, Ref ref) {
  return reinterpret_cast<const std::uint16_t*>(w.bank[ref >> 31] + (ref & ~kConstantRef));
}
inline const std::uint32_t* lanes32(const Warp& w, Ref ref) {
  return reinterpret_cast<const std::uint32_t*>(w.bank[ref >> 31] + (ref & ~kConstantRef));
}
inline const std::uint64_t* lanes64(const Warp& w, Ref ref) {
  return reinterpret_cast<const std::uint64_t*>(w.bank[ref >> 31] + (ref & ~kConstantRef));
}
inline std::uint32_t* write32(Warp& w, Ref ref) {
  return reinterpret_cast<std::uint32_t*>(w.bank[0] + ref);
}
inline std::uint64_t* write64(Warp& w, Ref ref) {
  return reinterpret_cast<std::uint64_t*>(w.bank[0] + ref);
}

}  // namespace sglab::emu
