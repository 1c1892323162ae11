#pragma once

#include "machine/async/tensor_map.hpp"
#include "machine/ops/operands.hpp"

namespace sglab::emu {

// Where an instruction wants its map; Inst::target of tensormap.replace.
enum class MapPlace : std::uint8_t { kAnywhere, kShared, kGlobal };

// tensormap.cp_fenceproxy
struct MapCopyOperands {
  ExtraAddress target, source;
};

// The tensor map at a generic address (parameter, constant, global or shared memory); faults if there is
// none.
TensorMap read_tensor_map(const Warp& w, const Inst* i, const AddressOperand& at, int lane);

}  // namespace sglab::emu
