#include "cpu_attention/isa/lanes.hpp"

namespace sglab::cpu_attention {

const Kernels kAvx512Bf16 = {"avx512_bf16", scratch_bytes, run_unit, narrow};

}  // namespace sglab::cpu_attention
