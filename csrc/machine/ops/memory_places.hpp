#pragma once

#include "machine/engine/launch.hpp"
#include "machine/memory/access.hpp"
#include "machine/ops/lanes.hpp"

// Where the bytes lie that a load or store's lanes mean, and whether they lie in a row.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Inst::target of a load or store.
struct Kind {
  u32 bits;
  static Kind pack(Space space, unsigned log_bytes, bool is_signed, char letter, unsigned count) {
    return {static_cast<u32>(space) | log_bytes << 4 | (is_signed ? 1u : 0u) << 8 | count << 12 |
            static_cast<u32>(letter) << 16};
  }
  Space space() const { return static_cast<Space>(bits & 0xf); }
  unsigned bytes() const { return 1u << (bits >> 4 & 0xf); }
  bool is_signed() const { return bits >> 8 & 1; }
  unsigned count() const { return bits >> 12 & 0xf; }
  char letter() const { return static_cast<char>(bits >> 16); }
};

// How the lanes' bytes lie; other than scattered where all lanes are active.
enum class Shape : u8 {
  kScattered,
  kPacked,  // one right after the other
  kSame,    // the same bytes for all
};

// What the lanes' addresses have in common, seen together.
struct Spread {
  u64 low, high;  // of the active lanes
  u64 any;        // or of all active addresses: misalignment shows in it
  Shape shape;
};

Spread spread_of(const u64* addresses, u32 lanes, unsigned bytes) {
  alignas(64) u64 a[kLanes];
  const u64 fill = addresses[__builtin_ctz(lanes)];
  each(a, [=](int l) { return bit(lanes, l) ? addresses[l] : fill; });
  Spread s{fill, fill, 0, Shape::kScattered};
  u64 off = 0;
  for (int l = 0; l < kLanes; ++l) {
    s.low = a[l] < s.low ? a[l] : s.low;
    s.high = a[l] < s.high ? s.high : a[l];
    s.any |= a[l];
    off |= a[l] ^ (fill + static_cast<u64>(l) * bytes);
  }
  if (lanes == 0xffffffffu) {
    if (off == 0)
      s.shape = Shape::kPacked;
    else if (s.low == s.high)
      s.shape = Shape::kSame;
  }
  return s;
}

void addresses_of(const Warp& w, const Inst* i, u64* addresses) {
  const u64 offset = static_cast<u64>(i->imm);
  switch (static_cast<AddressMode>(i->mode)) {
    case AddressMode::kReg64: {
      const u64* const a = in<u64>(w, i->a);
      return each(addresses, [=](int l) { return a[l] + offset; });
    }
    case AddressMode::kReg32: {
      const u32 *const a = in<u32>(w, i->a), low = static_cast<u32>(offset);
      return each(addresses, [=](int l) { return static_cast<u64>(a[l] + low); });
    }
    default:
      return lane_addresses(w, i, addresses);
  }
}

// Fills `places`.
Shape find_places(Warp& w, const Inst* i, const Kind& k, Places& places) {
  alignas(64) u64 addresses[kLanes];
  addresses_of(w, i, addresses);
  const unsigned bytes = k.bytes() * k.count();
  const Spread s = spread_of(addresses, w.mask, bytes);
  const bool aligned = (s.any & (bytes - 1)) == 0;
  const auto host = [&](u64 base) {
    each(reinterpret_cast<u64*>(places.at), [=](int l) { return addresses[l] + base; });
    return s.shape;
  };
  const Space space = k.space();
  if (aligned && (space == Space::kGlobal || space == Space::kGeneric || space == Space::kConst)) {
    const bool inside = s.high < w.allocation_end && s.high + bytes <= w.allocation_end;
    if (inside && s.low >= w.allocation_begin) return host(0);
  }
  if (aligned && space == Space::kShared && s.low >= w.shared_begin && s.high < w.shared_end &&
      s.high + bytes <= w.shared_end) {
    return host(w.shared_base);
  }
  switch (space) {
    case Space::kGlobal:
    case Space::kConst:
      global_places(w, i, addresses, w.mask, bytes, bytes, places);
      break;
    case Space::kShared:
      shared_places(w, i, addresses, w.mask, bytes, bytes, places);
      break;
    case Space::kLocal:
      local_places(w, i, addresses, w.mask, bytes, bytes, places);
      return Shape::kScattered;
    case Space::kParam:
      param_places(w, i, addresses, w.mask, bytes, bytes, places);
      return Shape::kScattered;
    default:
      generic_places(w, i, addresses, w.mask, bytes, bytes, places);
      return Shape::kScattered;
  }
  return s.shape;
}

// The two shapes that most accesses of whole warps have, told by fewer steps: sets the first lane's place
// alone. Anything else, misaligned and out of bounds too, is kScattered.
template <bool Store, class A>
Shape whole_warp(const Warp& w, const A* a, const Inst* i, const Kind& k, Places& places) {
  const A first = a[0], bytes = static_cast<A>(k.bytes());
  A same = 0, packed = 0;
  for (int l = 0; l < kLanes; ++l) {
    same |= a[l] ^ first;
    packed |= a[l] ^ static_cast<A>(first + static_cast<A>(l) * bytes);
  }
  const Shape shape = packed == 0 ? Shape::kPacked : !Store && same == 0 ? Shape::kSame : Shape::kScattered;
  const u64 address = static_cast<A>(first + static_cast<A>(i->imm));
  if (shape == Shape::kScattered || (address & (bytes - 1u)) != 0) return Shape::kScattered;
  const u64 end = address + (shape == Shape::kPacked ? kLanes * u64{bytes} : u64{bytes});
  if (k.space() == Space::kShared) {
    if (address < w.shared_begin || end > w.shared_end) return Shape::kScattered;
    places.at[0] = reinterpret_cast<u8*>(address + w.shared_base);
    return shape;
  }
  if (k.space() != Space::kGlobal && k.space() != Space::kGeneric) return Shape::kScattered;
  if (address < w.allocation_begin || end > w.allocation_end || end < address) return Shape::kScattered;
  places.at[0] = reinterpret_cast<u8*>(address);
  return shape;
}

template <bool Store>
Shape quick_places(const Warp& w, const Inst* i, const Kind& k, Places& places) {
  if (w.mask != 0xffffffffu) return Shape::kScattered;
  switch (static_cast<AddressMode>(i->mode)) {
    case AddressMode::kReg64:
      return whole_warp<Store>(w, in<u64>(w, i->a), i, k, places);
    case AddressMode::kReg32:
      return whole_warp<Store>(w, in<u32>(w, i->a), i, k, places);
    default:
      return Shape::kScattered;
  }
}

}  // namespace
}  // namespace sglab::emu::SGLAB_ISA
