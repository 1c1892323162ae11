#include "machine/tensor/mma_kernel.hpp"

#include "cpu/features.hpp"

namespace sglab::emu {

const MmaKernels& mma_kernels() {
#if defined(__x86_64__) && !defined(SGLAB_BASELINE_ONLY)
  switch (cpu::active_isa()) {
    case cpu::Isa::kAvx512:
      return kMmaKernelsAvx512;
    case cpu::Isa::kAvx2:
      return kMmaKernelsAvx2;
    case cpu::Isa::kBaseline:
      break;
  }
#endif
  return kMmaKernelsBaseline;
}

}  // namespace sglab::emu
