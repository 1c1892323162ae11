#pragma once

#include <cstdint>
#include <vector>

namespace sglab::emu {

struct Program;

// A register that an asynchronous instruction fills (tcgen05.ld, wgmma.mma_async), and an instruction after
// it in straight-line code that reads it with no wait between.
struct EarlyUse {
  std::uint32_t filler, reader;
};

// One per filler, in the order of the code. Copies (mov) are followed, since compilers move them up.
std::vector<EarlyUse> find_early_uses(const Program& program);

}  // namespace sglab::emu
