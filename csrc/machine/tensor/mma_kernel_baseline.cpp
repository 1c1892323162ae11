#include "machine/tensor/mma_kernel_impl.hpp"

const MmaKernels kMmaKernelsBaseline = kKernels;

}  // namespace sglab::emu
