#pragma once

#include <cstdint>

#include "machine/engine/warp.hpp"

namespace sglab::emu {

// Where the lanes of a memory instruction find their bytes: host addresses, checked for `bytes` bytes each.
struct Places {
  std::uint8_t* at[32];
};

// Lane addresses of an instruction with operands as Builder::address leaves them.
void lane_addresses(const Warp& w, const Inst* i, std::uint64_t* addresses);

// Checks and translates the addresses of the lanes in `lanes`. Alignment to `align` is checked, too.
// They throw LaunchFault naming the first offending lane.
void global_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes,
                   unsigned bytes, unsigned align, Places& places);
void shared_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes,
                   unsigned bytes, unsigned align, Places& places);
void local_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes, unsigned bytes,
                  unsigned align, Places& places);
void param_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes, unsigned bytes,
                  unsigned align, Places& places);
// Each lane's own window, by aperture.
void generic_places(Warp& w, const Inst* i, const std::uint64_t* addresses, std::uint32_t lanes,
                    unsigned bytes, unsigned align, Places& places);

enum class Use : std::uint8_t { kRead, kWrite };

// One global address, for instructions that work on a block of memory.
std::uint8_t* find_global(Warp& w, const Inst* i, int lane, std::uint64_t address, std::uint64_t bytes,
                          Use use);
inline std::uint8_t* global_bytes(Warp& w, const Inst* i, int lane, std::uint64_t address,
                                  std::uint64_t bytes, Use use) {
  if (address < w.allocation_begin || address > w.allocation_end || bytes > w.allocation_end - address)
    return find_global(w, i, lane, address, bytes, use);
  return reinterpret_cast<std::uint8_t*>(address);
}

}  // namespace sglab::emu
