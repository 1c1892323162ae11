#include "cpu_attention/isa/lanes.hpp"

namespace sglab::cpu_attention {

const Kernels kBaseline = {"baseline", scratch_bytes, run_unit, narrow};

}  // namespace sglab::cpu_attention
