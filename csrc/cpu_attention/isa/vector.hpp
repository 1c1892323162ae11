// A vector of floats, and the functions of softmax on it. Like all files of this folder it is compiled once
// per instruction set, in an unnamed namespace, and takes no header with inline functions along: no other
// object file can pick up these copies.

#pragma once

#include <cstdint>
#include <cstring>

#include "cpu_attention/kernels.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace sglab::cpu_attention {
namespace {

#if defined(__AVX512F__) && defined(__AVX512BW__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
// How many accumulators of a product stay in registers.
constexpr int kAccumulators = kLanes == 16 ? 16 : 8;

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t Bits __attribute__((vector_size(kLanes * 4)));
typedef float Vec4 __attribute__((vector_size(16)));

constexpr float kInfinity = __builtin_inff();
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

template <typename V, typename T>
inline V load_as(const T* source) {
  V value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}
inline Vec load(const float* source) {
  return load_as<Vec>(source);
}
template <typename V, typename T>
inline void store(T* target, V value) {
  std::memcpy(target, &value, sizeof(value));
}
inline Vec splat(float value) {
  return Vec{} + value;
}
inline Vec select(Ints condition, Vec yes, Vec no) {
  return (Vec)(((Ints)yes & condition) | ((Ints)no & ~condition));
}
inline Vec larger(Vec a, Vec b) {
  return select(a > b, a, b);
}  // b where a is NaN

// 2^x to about one unit in the last place; 0 below 2^-126; NaN and infinity as they should be.
inline Vec exp2(Vec x) {
  const Vec magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec inside = select(x > splat(127.5f), splat(127.5f), x);
  const Vec shifted = inside + magic;
  const Vec n = shifted - magic, r = inside - n;
  Vec p = splat(1.535336188319500e-4f);
  p = p * r + 1.339887440266574e-3f;
  p = p * r + 9.618437357674640e-3f;
  p = p * r + 5.550332471162809e-2f;
  p = p * r + 2.402264791363012e-1f;
  p = p * r + 6.931472028550421e-1f;
  p = p * r + 1.0f;
  const Ints exponent = ((Ints)shifted - 0x4b400000 + 127) << 23;
  // 2^128 does not exist: beyond the largest argument the answer is infinity.
  const Vec value = select(x >= splat(128.0f), splat(kInfinity), p * (Vec)exponent);
  return select(x < splat(-126.0f), Vec{}, value);
}

inline Vec tanh(Vec x) {
  const Vec size = (Vec)((Ints)x & 0x7fffffff);
  const Vec z = x * x;
  Vec small = splat(-5.70498872745e-3f);
  small = small * z + 2.06390887954e-2f;
  small = small * z - 5.37397155531e-2f;
  small = small * z + 1.33314422036e-1f;
  small = small * z - 3.33332819422e-1f;
  small = small * z * x + x;
  const Vec rest = 1.0f - 2.0f / (exp2(size * (2 * kLog2E)) + 1.0f);
  const Vec large = (Vec)((Ints)rest | ((Ints)x & (std::int32_t)0x80000000));
  return select(size < splat(0.625f), small, large);
}

inline float max_of(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  float best = lanes[0];
  for (int i = 1; i < kLanes; ++i) best = lanes[i] > best ? lanes[i] : best;
  return best;
}

// The sum of the lanes of each of four vectors: always the same tree.
inline Vec4 quarter(Vec v) {
#if defined(__AVX512F__) && defined(__AVX512BW__)
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
  return (Vec4)_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
  return (Vec4)_mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
#else
  return (Vec4)v;
#endif
}
inline Vec4 sums_of(Vec a, Vec b, Vec c, Vec d) {
  const Vec4 p = quarter(a), q = quarter(b), r = quarter(c), s = quarter(d);
  const Vec4 pq = __builtin_shufflevector(p, q, 0, 4, 1, 5) + __builtin_shufflevector(p, q, 2, 6, 3, 7);
  const Vec4 rs = __builtin_shufflevector(r, s, 0, 4, 1, 5) + __builtin_shufflevector(r, s, 2, 6, 3, 7);
  return __builtin_shufflevector(pq, rs, 0, 1, 4, 5) + __builtin_shufflevector(pq, rs, 2, 3, 6, 7);
}
inline float sum_of(Vec v) {
  return sums_of(v, Vec{}, Vec{}, Vec{})[0];
}

inline float exp2(float x) {
  return exp2(splat(x))[0];
}

}  // namespace
}  // namespace sglab::cpu_attention
