#pragma once

#include <bit>
#include <cstdint>
#include <functional>

#include "machine/engine/registers.hpp"
#include "machine/engine/warp.hpp"

// Member masks of .sync instructions. Lanes of one warp may name different ones: those that name the same
// mask form a set, and each set executes the instruction for itself.
namespace sglab::emu {

// Runs f(lanes) for each set whose members have come; the others wait. What exchange() does when lanes name
// different masks, or when some members have not come.
const Inst* exchange_by_sets(Warp& warp, const Inst* inst, Ref members,
                             const std::function<void(std::uint32_t)>& f);

// Those of `lanes` that name the mask `members`.
inline std::uint32_t naming(const Warp& w, Ref ref, std::uint32_t lanes, std::uint32_t members) {
  const std::uint32_t* const named = lanes32(w, ref);
  std::uint32_t same = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) same |= (named[lane] == members ? 1u : 0u) << lane;
  return same & lanes;
}

// Executes a .sync instruction: f(lanes) for each set of lanes.
template <class F>
const Inst* exchange(Warp& w, const Inst* i, Ref ref, F f) {
  const std::uint32_t members = lanes32(w, ref)[std::countr_zero(w.mask)];
  const bool alike = (ref & kConstantRef) != 0 || naming(w, ref, w.mask, members) == w.mask;
  if (!alike || ((members & w.live) != w.mask)) return exchange_by_sets(w, i, ref, f);
  f(w.mask);
  return i + 1;
}

}  // namespace sglab::emu
