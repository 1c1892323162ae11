#pragma once

#include <cstdint>

namespace sglab::emu {

// Warp-instructions of the launch that this host thread runs, for whoever is asked by it whether to stop.
inline thread_local std::uint64_t executed_so_far = 0;

}  // namespace sglab::emu
