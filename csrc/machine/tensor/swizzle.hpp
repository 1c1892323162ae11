#pragma once

#include <cstdint>
#include <string_view>

namespace sglab::emu {

// Shared-memory swizzles of TMA and of the matrix descriptors. Each is an exclusive-or of address bits, a
// function of the absolute address inside the CTA's shared window (whose base is a multiple of 1,024).
enum class Swizzle : std::uint8_t {
  kNone,
  k32B,                // bit 4 ^= bit 7
  k64B,                // bits 4-5 ^= bits 7-8
  k128B,               // bits 4-6 ^= bits 7-9
  k128BAtom32B,        // bits 5-6 ^= bits 7-8
  k128BAtom32BFlip8B,  // as above, and bit 3 ^= bit 7 (the halves of each 16 bytes change places on odd rows)
  k128BAtom64B,        // bit 6 ^= bit 7
};

// address ^= (address >> shift) & mask.
struct SwizzlePattern {
  std::uint32_t shift;
  std::uint32_t mask;
};

// The 8-byte flip is a second pattern on top.
constexpr SwizzlePattern swizzle_pattern(Swizzle swizzle) {
  constexpr SwizzlePattern kPatterns[] = {{0, 0},    {3, 0x10}, {3, 0x30}, {3, 0x70},
                                          {2, 0x60}, {2, 0x60}, {1, 0x40}};
  return kPatterns[static_cast<int>(swizzle)];
}

constexpr std::uint32_t swizzle_address(Swizzle swizzle, std::uint32_t address) {
  const SwizzlePattern pattern = swizzle_pattern(swizzle);
  const std::uint32_t flip = swizzle == Swizzle::k128BAtom32BFlip8B ? (address >> 4) & 0x8u : 0;
  return address ^ ((address >> pattern.shift) & pattern.mask) ^ flip;
}

// Bytes of one row of the pattern: what a tensor map's inner box dimension may not exceed.
constexpr std::uint32_t swizzle_span(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::kNone:
      return 16;
    case Swizzle::k32B:
      return 32;
    case Swizzle::k64B:
      return 64;
    default:
      return 128;
  }
}

constexpr std::string_view swizzle_name(Swizzle swizzle) {
  constexpr std::string_view kNames[] = {
      "none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B"};
  return kNames[static_cast<int>(swizzle)];
}

}  // namespace sglab::emu
