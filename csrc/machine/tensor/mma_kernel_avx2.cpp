#include "machine/tensor/mma_kernel_impl.hpp"

const MmaKernels kMmaKernelsAvx2 = kKernels;

}  // namespace sglab::emu
