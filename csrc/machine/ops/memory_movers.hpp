#pragma once

#include "machine/ops/memory_places.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// Moving a load or store's elements between registers and the bytes that were found.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u16 = std::uint16_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
struct alignas(16) u128 {
  u64 low, high;
};

template <class M, class R>
void load_element(Warp& w, Ref ref, const Places& p, unsigned offset, u32 lanes, Shape shape) {
  R* const d = out<R>(w, ref);
  if (shape == Shape::kSame) {
    M value;
    std::memcpy(&value, p.at[0] + offset, sizeof value);
    R copy;
    if constexpr (sizeof(M) == sizeof(R))
      std::memcpy(&copy, &value, sizeof copy);
    else
      copy = static_cast<R>(value);
    return each(d, [=](int) { return copy; });
  }
  if (shape == Shape::kPacked) {
    const u8* const base = p.at[0];
    if constexpr (sizeof(M) == sizeof(R)) {
      std::memcpy(d, base, sizeof(R) * kLanes);
    } else {
      M values[kLanes];
      std::memcpy(values, base, sizeof values);
      each(d, [&](int l) { return static_cast<R>(values[l]); });
    }
    return;
  }
  for (u32 m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    M value;
    std::memcpy(&value, p.at[l] + offset, sizeof value);
    if constexpr (sizeof(M) == sizeof(R))
      std::memcpy(&d[l], &value, sizeof value);
    else
      d[l] = static_cast<R>(value);
  }
}

template <class M, class R>
void store_element(Warp& w, Ref ref, const Places& p, unsigned offset, u32 lanes, Shape shape) {
  const R* const a = in<R>(w, ref);
  if (shape == Shape::kPacked) {
    if constexpr (sizeof(M) == sizeof(R)) {
      std::memcpy(p.at[0], a, sizeof(R) * kLanes);
    } else {
      M values[kLanes];
      each(values, [&](int l) { return static_cast<M>(a[l]); });
      std::memcpy(p.at[0], values, sizeof values);
    }
    return;
  }
  for (u32 m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    M value;
    if constexpr (sizeof(M) == sizeof(R))
      std::memcpy(&value, &a[l], sizeof value);
    else
      value = static_cast<M>(a[l]);
    std::memcpy(p.at[l] + offset, &value, sizeof value);
  }
}

#if defined(__SSE2__)
// Sixteen bytes of each lane and four registers, for all lanes: squares of four by four, transposed.
template <bool Store>
void move_quads(Warp& w, const Ref* refs, const Places& p) {
  float* registers[4];
  for (int e = 0; e < 4; ++e) {
    registers[e] = Store ? const_cast<float*>(in<float>(w, refs[e])) : out<float>(w, refs[e]);
  }
  for (int l = 0; l < kLanes; l += 4) {
    __m128 rows[4];
    for (int n = 0; n < 4; ++n) {
      rows[n] = _mm_loadu_ps(Store ? registers[n] + l : reinterpret_cast<const float*>(p.at[l + n]));
    }
    _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
    for (int n = 0; n < 4; ++n) {
      _mm_storeu_ps(Store ? reinterpret_cast<float*>(p.at[l + n]) : registers[n] + l, rows[n]);
    }
  }
}
#endif

using Mover = void (*)(Warp&, Ref, const Places&, unsigned, u32, Shape);

// By log2 of the element's bytes and register width (h, w, l).
constexpr Mover kUnsignedLoads[4][3] = {
    {load_element<u8, u16>, load_element<u8, u32>, load_element<u8, u64>},
    {load_element<u16, u16>, load_element<u16, u32>, load_element<u16, u64>},
    {nullptr, load_element<u32, u32>, load_element<u32, u64>},
    {nullptr, nullptr, load_element<u64, u64>},
};
constexpr Mover kSignedLoads[3][3] = {
    {load_element<s8, u16>, load_element<s8, u32>, load_element<s8, u64>},
    {load_element<s16, u16>, load_element<s16, u32>, load_element<s16, u64>},
    {nullptr, load_element<s32, u32>, load_element<s32, u64>},
};
constexpr Mover kStores[4][3] = {
    {store_element<u8, u16>, store_element<u8, u32>, store_element<u8, u64>},
    {store_element<u16, u16>, store_element<u16, u32>, store_element<u16, u64>},
    {nullptr, store_element<u32, u32>, store_element<u32, u64>},
    {nullptr, nullptr, store_element<u64, u64>},
};

int column(char letter) {
  return letter == 'h' ? 0 : letter == 'w' ? 1 : 2;
}

Mover mover(const Kind& k, bool store) {
  const unsigned row = k.bits >> 4 & 0xf;
  if (k.letter() == 'x') return store ? store_element<u128, u128> : load_element<u128, u128>;
  if (k.letter() == 'b') return store ? store_element<u8, u8> : load_element<u8, u8>;
  if (store) return kStores[row][column(k.letter())];
  return k.is_signed() && row < 3 ? kSignedLoads[row][column(k.letter())]
                                  : kUnsignedLoads[row][column(k.letter())];
}

// Those that the PTX memory model calls strong, in a launch on several host threads: each element at once, in
// one order for all. Of 128 bits a host has no such access; a lock would not help against atoms elsewhere.
template <class M, class R>
void load_strong(Warp& w, Ref ref, const Places& p, unsigned offset, u32 lanes, Shape) {
  R* const d = out<R>(w, ref);
  for (u32 m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    d[l] = static_cast<R>(__atomic_load_n(reinterpret_cast<const M*>(p.at[l] + offset), __ATOMIC_SEQ_CST));
  }
}

template <class M, class R>
void store_strong(Warp& w, Ref ref, const Places& p, unsigned offset, u32 lanes, Shape) {
  const R* const a = in<R>(w, ref);
  for (u32 m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    __atomic_store_n(reinterpret_cast<M*>(p.at[l] + offset), static_cast<M>(a[l]), __ATOMIC_SEQ_CST);
  }
}

template <bool Store, class M>
Mover strong_of(char letter) {
  if constexpr (Store) {
    return letter == 'h' ? store_strong<M, u16> : letter == 'w' ? store_strong<M, u32> : store_strong<M, u64>;
  } else {
    return letter == 'h' ? load_strong<M, u16> : letter == 'w' ? load_strong<M, u32> : load_strong<M, u64>;
  }
}

template <bool Store>
Mover strong_mover(const Kind& k) {
  if (k.letter() == 'x') return mover(k, Store);
  if (k.letter() == 'b') return Store ? store_strong<u8, u8> : load_strong<u8, u8>;
  const bool extends = !Store && k.is_signed();
  switch (k.bytes()) {
    case 1:
      return extends ? strong_of<Store, s8>(k.letter()) : strong_of<Store, u8>(k.letter());
    case 2:
      return extends ? strong_of<Store, s16>(k.letter()) : strong_of<Store, u16>(k.letter());
    case 4:
      return extends ? strong_of<Store, s32>(k.letter()) : strong_of<Store, u32>(k.letter());
    default:
      return strong_of<Store, u64>(k.letter());
  }
}

}  // namespace
}  // namespace sglab::emu::SGLAB_ISA
