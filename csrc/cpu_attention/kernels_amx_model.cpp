#define SGLAB_TILES
#define SGLAB_TILE_MODEL
#include "cpu_attention/isa/lanes.hpp"

namespace sglab::cpu_attention {

const Kernels kAmxModel = {"amx_model", scratch_bytes, run_unit, narrow};

}  // namespace sglab::cpu_attention
