#define SGLAB_TILES
#include "cpu_attention/isa/lanes.hpp"

namespace sglab::cpu_attention {

const Kernels kAmx = {"amx", scratch_bytes, run_unit, narrow};

}  // namespace sglab::cpu_attention
