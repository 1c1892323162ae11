#pragma once

#include <cstdint>
#include <vector>

#include "machine/tensor/tmem.hpp"

namespace sglab::emu {

struct Inst;

// A tcgen05.st that no tcgen05.wait::st has completed.
struct PendingStore {
  const Inst* inst;
  std::uint64_t position;  // Launch::position at its issue
  TmemAddress address;
  std::vector<std::uint32_t> values;  // [register][32]
};

}  // namespace sglab::emu
