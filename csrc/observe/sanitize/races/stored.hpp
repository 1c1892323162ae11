#pragma once

#include <cstdint>

#include "machine/engine/warp.hpp"

namespace sglab::emu::races {

// Whether two lanes of a st or stmatrix that was just executed have written the same bytes.
bool stores_alike(const Warp& warp, const Inst* inst, std::uint32_t lane, std::uint32_t other);

}  // namespace sglab::emu::races
