#include "machine/tensor/mma_kernel_impl.hpp"

const MmaKernels kMmaKernelsAvx512 = kKernels;

}  // namespace sglab::emu
