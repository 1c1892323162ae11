// What the emulated GPU does not offer. Programs that ask get an error with a name instead of a missing
// symbol.
#include "runtime/state.hpp"

using namespace sglab::runtime;

#define SGLAB_REFUSED(function, what)                \
  SGLAB_CUDA_API Status function() {                 \
    return fail(kNotSupported, #function ": " what); \
  }

SGLAB_REFUSED(cudaGraphConditionalHandleCreate, "conditional nodes of graphs are not supported")
SGLAB_REFUSED(cudaCreateTextureObject, "textures are not supported")
SGLAB_REFUSED(cudaMallocArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaMalloc3DArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaDeviceEnablePeerAccess, "there is one emulated GPU")
SGLAB_REFUSED(cudaMemcpyPeer, "there is one emulated GPU")
