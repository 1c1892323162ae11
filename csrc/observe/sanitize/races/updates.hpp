#pragma once

#include <cstdint>

#include "machine/program/program.hpp"

namespace sglab::emu::races {

// Whether an instruction is the load or the store of "x += …": a thread reads a place, changes what it finds
// and writes it back, by plain accesses of one register that holds the address.
bool is_part_of_update(const Program& program, std::uint32_t pc);

}  // namespace sglab::emu::races
