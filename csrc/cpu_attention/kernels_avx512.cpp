#include "cpu_attention/isa/lanes.hpp"

namespace sglab::cpu_attention {

const Kernels kAvx512 = {"avx512", scratch_bytes, run_unit, narrow};

}  // namespace sglab::cpu_attention
