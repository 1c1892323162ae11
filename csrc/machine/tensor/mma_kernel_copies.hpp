// Compiled once per instruction set by way of mma_kernel_impl.hpp, which says why all is in an unnamed
// namespace.
#pragma once

// What cp.async asks of 32 lanes at once.
namespace sglab::emu {
namespace {

CopiesFound place_copies(const CopyLanes& copy, std::uint32_t* __restrict shared,
                         std::uint64_t* __restrict global, std::uint8_t* __restrict reads) {
  const CopyLanes c = copy;  // which no store below can change
  // Both limits are below 2^63, so whoever is outside has the uppermost bit in one of two differences.
  std::uint64_t outside = 0, unaligned = 0;
  std::uint32_t other = 0;
  if (c.sizes != nullptr) {
    for (int lane = 0; lane < 32; ++lane) {
      other |= c.sizes[lane] & ~c.bytes;
      reads[lane] = static_cast<std::uint8_t>(c.sizes[lane]);
    }
    if (other != 0) return CopiesFound::kUneven;
  } else {
    for (int lane = 0; lane < 32; ++lane) reads[lane] = static_cast<std::uint8_t>(c.bytes);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const std::uint32_t at = c.to[lane] + c.to_offset;
    shared[lane] = at;
    const std::uint64_t to = std::uint64_t{at} - c.window_begin;
    outside |= to | (c.window_room - to);
    unaligned |= at;
  }
  if (c.sizes != nullptr) {
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint64_t at = c.from[lane] + c.from_offset;
      const std::uint64_t counts = 0 - static_cast<std::uint64_t>(c.sizes[lane] != 0);
      global[lane] = at;
      const std::uint64_t from = (at - c.begin) & counts;
      outside |= from | (c.room - from);
      unaligned |= at & counts;
    }
  } else {
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint64_t at = c.from[lane] + c.from_offset, from = at - c.begin;
      global[lane] = at;
      outside |= from | (c.room - from);
      unaligned |= at;
    }
  }
  const bool good = outside >> 63 == 0 && (unaligned & (c.bytes - 1)) == 0;
  return good ? CopiesFound::kGood : CopiesFound::kOutside;
}

}  // namespace
}  // namespace sglab::emu
