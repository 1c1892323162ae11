#pragma once

#include <cstdint>
#include <cstring>

#include "isa/inst.hpp"
#include "machine/engine/warp.hpp"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

// Files that include this header are compiled once per instruction set, each time into its own namespace.
// They must not instantiate standard-library templates that could stay out of line: the linker keeps only one
// copy of those.
#ifndef SGLAB_ISA
#error "compile with -DSGLAB_ISA=baseline|avx2|avx512"
#endif

#if defined(__clang__)
#define SGLAB_LANEWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SGLAB_LANEWISE _Pragma("GCC ivdep")
#endif

namespace sglab::emu::SGLAB_ISA {

constexpr int kLanes = 32;

template <class T>
inline T* out(Warp& w, Ref ref) {
  return reinterpret_cast<T*>(w.bank[0] + ref);
}

template <class T>
inline const T* in(const Warp& w, Ref ref) {
  return reinterpret_cast<const T*>(w.bank[ref >> 31] + (ref & ~kConstantRef));
}

inline std::uint32_t predicate(const Warp& w, Ref ref) {
  return w.predicates[ref & ~kNegatedRef] ^ (0u - (ref >> 31));
}

// d[l] = f(l) for all lanes. d may be the very register that f reads, never one that overlaps it otherwise.
template <class T, class F>
inline void each(T* d, F f) {
  SGLAB_LANEWISE
  for (int l = 0; l < kLanes; ++l) d[l] = f(l);
}

// Bit l of the result: f(l), which returns bool.
template <class F>
inline std::uint32_t mask_of(F f) {
  alignas(64) std::int32_t flags[kLanes];
  SGLAB_LANEWISE
  for (int l = 0; l < kLanes; ++l) flags[l] = f(l) ? -1 : 0;
#if defined(__AVX512F__)
  const std::uint32_t low = _mm512_movepi32_mask(_mm512_load_si512(flags));
  const std::uint32_t high = _mm512_movepi32_mask(_mm512_load_si512(flags + 16));
  return low | high << 16;
#elif defined(__AVX2__)
  std::uint32_t mask = 0;
  for (int i = 0; i < 4; ++i) {
    const auto part = _mm256_load_ps(reinterpret_cast<const float*>(flags) + 8 * i);
    mask |= static_cast<std::uint32_t>(_mm256_movemask_ps(part)) << 8 * i;
  }
  return mask;
#else
  std::uint32_t mask = 0;
  for (int l = 0; l < kLanes; ++l) mask |= (static_cast<std::uint32_t>(flags[l]) & 1u) << l;
  return mask;
#endif
}

inline bool bit(std::uint32_t mask, int lane) {
  return mask >> lane & 1u;
}

// d[l] = a[l] for lanes in mask, b[l] for the others. Both are read: of a load that depends on a condition
// compilers make a branch.
template <class T>
inline void choose(T* d, const T* a, const T* b, std::uint32_t mask) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    for (int i = 0; i < kLanes; i += 16) {
      const __m512i others = _mm512_loadu_si512(b + i);
      _mm512_storeu_si512(d + i, _mm512_mask_loadu_epi32(others, static_cast<__mmask16>(mask >> i), a + i));
    }
    return;
  }
#endif
  each(d, [=](int l) {
    const T one = a[l], other = b[l];
    const T chosen = static_cast<T>(T{0} - static_cast<T>(mask >> l & 1u));
    return static_cast<T>((one & chosen) | (other & static_cast<T>(~chosen)));
  });
}

// d[l] = saved[l] for lanes that are not in mask.
template <class T>
inline void keep(T* d, const T* saved, std::uint32_t mask) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(d, static_cast<__mmask16>(~mask), _mm512_load_si512(saved));
    _mm512_mask_storeu_epi32(d + 16, static_cast<__mmask16>(~mask >> 16), _mm512_load_si512(saved + 16));
    return;
  } else if constexpr (sizeof(T) == 8) {
    for (int i = 0; i < 4; ++i) {
      _mm512_mask_storeu_epi64(d + 8 * i, static_cast<__mmask8>(~mask >> 8 * i),
                               _mm512_load_si512(saved + 8 * i));
    }
    return;
  }
#endif
  for (int l = 0; l < kLanes; ++l) d[l] = bit(mask, l) ? d[l] : saved[l];
}

// Handlers of lane-local instructions: F maps one lane's sources to its result.
template <auto F, class D, class A>
const Inst* unary(Warp& w, const Inst* i) {
  D* const d = out<D>(w, i->d);
  const A* const a = in<A>(w, i->a);
  each(d, [=](int l) { return static_cast<D>(F(a[l])); });
  return i + 1;
}

template <auto F, class D, class A, class B = A>
const Inst* binary(Warp& w, const Inst* i) {
  D* const d = out<D>(w, i->d);
  const A* const a = in<A>(w, i->a);
  const B* const b = in<B>(w, i->b);
  each(d, [=](int l) { return static_cast<D>(F(a[l], b[l])); });
  return i + 1;
}

template <auto F, class D, class A, class B = A, class C = A>
const Inst* ternary(Warp& w, const Inst* i) {
  D* const d = out<D>(w, i->d);
  const A* const a = in<A>(w, i->a);
  const B* const b = in<B>(w, i->b);
  const C* const c = in<C>(w, i->c);
  each(d, [=](int l) { return static_cast<D>(F(a[l], b[l], c[l])); });
  return i + 1;
}

}  // namespace sglab::emu::SGLAB_ISA
