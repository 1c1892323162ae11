#pragma once

#include <cstdint>

#include "machine/engine/warp.hpp"

// A warp's registers. The 32 lanes of one are side by side; constants are stored 32-fold as well.
namespace sglab::emu {

template <class T>
const T* read_register(const Warp& w, Ref ref) {
  return reinterpret_cast<const T*>(w.bank[ref >> 31] + (ref & ~kConstantRef));
}
template <class T>
T* write_register(Warp& w, Ref ref) {
  return reinterpret_cast<T*>(w.bank[0] + ref);
}

inline const std::uint16_t* lanes16(const Warp& w, Ref ref) {
  return read_register<std::uint16_t>(w, ref);
}
inline const std::uint32_t* lanes32(const Warp& w, Ref ref) {
  return read_register<std::uint32_t>(w, ref);
}
inline const std::uint64_t* lanes64(const Warp& w, Ref ref) {
  return read_register<std::uint64_t>(w, ref);
}
inline std::uint32_t* write32(Warp& w, Ref ref) {
  return write_register<std::uint32_t>(w, ref);
}
inline std::uint64_t* write64(Warp& w, Ref ref) {
  return write_register<std::uint64_t>(w, ref);
}

// The lanes in which a predicate, or its negation, holds.
inline std::uint32_t predicate_lanes(const Warp& w, Ref ref) {
  return w.predicates[ref & ~kNegatedRef] ^ (0u - (ref >> 31));
}

}  // namespace sglab::emu
