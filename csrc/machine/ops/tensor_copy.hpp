#pragma once

#include "machine/ops/operands.hpp"

namespace sglab::emu {

// The mbarrier that a cp.async.bulk.tensor into shared memory signals.
AddressOperand signalled_by_tensor_copy(const Inst* i);

}  // namespace sglab::emu
