#pragma once

// Where hardware has a tensor map's fields. NVIDIA does not document it; it is read off the code that ptxas
// (CUDA 13.0) makes of each tensormap.replace, and off the maps, tiled and im2col, that CuTe DSL's host code
// builds (tests/emulator/golden/tensor_maps.json). Numbers count bits from the map's first one; the second
// 512 bits are not read.

#include <cstdint>

#include "machine/async/tensor_map.hpp"

namespace sglab::emu::map_bits {

struct Bits {
  int first;
  int count;
};

constexpr Bits kAddress{0, 64};
constexpr Bits kKind{64, 4};  // kTiled or kIm2col
constexpr Bits kRank{68, 3};  // less 1
constexpr Bits kType{71, 4};
constexpr Bits kInterleave{75, 2};
constexpr Bits kSwizzle{77, 2};
constexpr Bits kNanFill{79, 1};
constexpr Bits kTf32{80, 1};  // of float32: rounds to tf32
constexpr Bits kL2Promotion{81, 2};
constexpr Bits kAtomicity{83, 3};
constexpr Bits kLarge{85, 1};  // for tensors of 128 KiB and more; CUTLASS clears it of small ones
constexpr Bits kSwizzle96{86, 1};
constexpr Bits kUnknown{87, 7};
constexpr Bits kWide{94, 2};  // .im2col::w: a place of ours, since no code that we can read shows hardware's

constexpr std::uint64_t kTiled = 2, kIm2col = 3;

// Sizes, boxes and strides of elements are stored less 1; strides in 16 bytes, their highest 4 bits apart.
constexpr Bits dim(int i) {
  return {256 + 32 * i, 32};
}
constexpr Bits stride_low(int i) {  // i from 1
  return {96 + 32 * (i - 1), 32};
}
constexpr Bits stride_high(int i) {
  return {224 + 4 * (i - 1), 4};
}
constexpr Bits element_stride(int i) {
  return {416 + 3 * i, 3};
}
constexpr Bits box(int i) {
  return {440 + 8 * i, 8};
}

// im2col: channels instead of box 0, corners instead of the other boxes: the more dimensions, the fewer bits
// each.
constexpr Bits kPixels{480, 10};
// .im2col::w has corners along one dimension.
constexpr Bits corner(int dimensions, int i, bool upper) {
  const int count = dimensions == 1 ? 16 : dimensions == 2 ? 8 : 5;
  return {448 + (upper ? 16 : 0) + count * i, count};
}

inline std::uint64_t get(const TensorMapBytes& bytes, Bits at) {
  const std::uint64_t word = bytes.words[at.first / 64] >> (at.first % 64);
  return at.count == 64 ? word : word & ((1ull << at.count) - 1);
}

inline void set(TensorMapBytes& bytes, Bits at, std::uint64_t value) {
  std::uint64_t& word = bytes.words[at.first / 64];
  const std::uint64_t mask = (at.count == 64 ? ~0ull : (1ull << at.count) - 1) << (at.first % 64);
  word = (word & ~mask) | ((value << (at.first % 64)) & mask);
}

inline void set_stride(TensorMapBytes& bytes, int i, std::uint64_t value) {
  set(bytes, stride_low(i), value >> 4);
  set(bytes, stride_high(i), value >> 36);
}

// Numbers of types in hardware; those of cuTensorMapEncode* differ from 9 on. tf32 is float32 with kTf32.
void set_type(TensorMapBytes& bytes, TensorMapType type);

}  // namespace sglab::emu::map_bits
