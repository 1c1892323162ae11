#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "machine/engine/registers.hpp"
#include "machine/engine/warp.hpp"

// Member masks of .sync instructions. Lanes of one warp may name different ones: those that name the same
// mask form a set, and each set executes the instruction for itself. Lanes of a set may be at different
// instructions: they wait for those that execute one "with the same qualifiers and same membermask" (PTX
// ISA).
namespace sglab::emu {

// An instruction that lanes exchange something by is a class with
//   Given                           what all lanes give
//   take(w, inst, lanes, given)     reads what the lanes give
//   give(w, inst, lanes, all, given)   writes what the lanes get of it; `all` take part
// of which this is the form without types.
struct Exchange {
  using Given = decltype(Meeting::given);
  void (*take)(const Warp&, const Inst*, std::uint32_t lanes, Given&);
  void (*give)(Warp&, const Inst*, std::uint32_t lanes, std::uint32_t all, const Given&);
};

template <class Op>
constexpr Exchange exchange_of() {
  using Typed = typename Op::Given;
  static_assert(std::is_trivially_copyable_v<Typed> && sizeof(Typed) <= sizeof(Exchange::Given));
  return {[](const Warp& w, const Inst* i, std::uint32_t lanes, Exchange::Given& bytes) {
            Typed given;
            std::memcpy(&given, bytes.data(), sizeof given);
            Op::take(w, i, lanes, given);
            std::memcpy(bytes.data(), &given, sizeof given);
          },
          [](Warp& w, const Inst* i, std::uint32_t lanes, std::uint32_t all, const Exchange::Given& bytes) {
            Typed given;
            std::memcpy(&given, bytes.data(), sizeof given);
            Op::give(w, i, lanes, all, given);
          }};
}

// What exchange() does when lanes name different masks, or when some members have not come.
const Inst* exchange_by_sets(Warp& warp, const Inst* inst, Ref members, const Exchange& exchange);

// Those of `lanes` that name the mask `members`.
inline std::uint32_t naming(const Warp& w, Ref ref, std::uint32_t lanes, std::uint32_t members) {
  const std::uint32_t* const named = lanes32(w, ref);
  std::uint32_t same = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) same |= (named[lane] == members ? 1u : 0u) << lane;
  return same & lanes;
}

// Executes a .sync instruction for each set of lanes whose members have come; the others wait.
template <class Op>
const Inst* exchange(Warp& w, const Inst* i, Ref ref) {
  const std::uint32_t members = lanes32(w, ref)[std::countr_zero(w.mask)];
  const bool alike = (ref & kConstantRef) != 0 || naming(w, ref, w.mask, members) == w.mask;
  if (!alike || (members & w.live) != w.mask || !w.meetings.empty())
    return exchange_by_sets(w, i, ref, exchange_of<Op>());
  typename Op::Given given;
  Op::take(w, i, 0xffffffffu, given);
  Op::give(w, i, w.mask, w.mask, given);
  return i + 1;
}

}  // namespace sglab::emu
