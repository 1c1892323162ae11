#pragma once

#include <cstdint>
#include <vector>

#include "emulator/tensor/tmem.hpp"

namespace sglab::emu {

struct Inst;

// A tcgen05.st that no tcgen05.wait::st has completed.
struct PendingStore {
  const Inst* inst;
  TmemAddress address;
  std::vector<std::uint32_t> values;  // [register][32]
};

}  // namespace sglab::emu
