#pragma once

#include <any>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "isa/inst.hpp"

namespace sglab::emu {

// An operand [register + offset] whose register is among Extra::refs.
struct ExtraAddress {
  AddressMode mode = AddressMode::kAbsolute;
  std::uint32_t ref = 0;
  std::int64_t offset = 0;
};

// What does not fit into Inst.
struct Extra {
  std::vector<Ref> refs;                 // registers: the allocator places them
  std::optional<ExtraAddress> mbarrier;  // that the operation signals
  std::optional<ExtraAddress> map;       // the tensor map that describes it
  std::any payload;                      // a struct of the instruction's family
};

template <class T>
const T& payload(const Inst* i) {
  return *std::any_cast<T>(&i->extra->payload);
}

// brx: the instructions that its targets begin with.
struct BranchTargets {
  std::vector<std::uint32_t> pcs;
};

}  // namespace sglab::emu
