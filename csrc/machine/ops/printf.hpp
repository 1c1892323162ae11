#pragma once

#include <cstdint>
#include <string>

#include "machine/engine/warp.hpp"

namespace sglab::emu {

// vprintf of one lane: the format and its packed arguments, by generic address.
void print(Warp& w, const Inst* i, int lane, std::uint64_t format, std::uint64_t arguments);

// A zero-terminated string at a generic address.
std::string read_string(Warp& w, const Inst* i, int lane, std::uint64_t address);

}  // namespace sglab::emu
