#include "cpu_attention/isa/lanes.hpp"

namespace sglab::cpu_attention {

const Kernels kAvx2 = {"avx2", scratch_bytes, run_unit, narrow};

}  // namespace sglab::cpu_attention
