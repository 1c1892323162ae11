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
SGLAB_REFUSED(cudaMallocMipmappedArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaGetMipmappedArrayLevel, "arrays for textures are not supported")
SGLAB_REFUSED(cudaFreeMipmappedArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaFreeArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaArrayGetInfo, "arrays for textures are not supported")
SGLAB_REFUSED(cudaMemcpyToArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaMemcpyFromArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaMemcpy2DToArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaMemcpy2DToArrayAsync, "arrays for textures are not supported")
SGLAB_REFUSED(cudaMemcpy2DFromArray, "arrays for textures are not supported")
SGLAB_REFUSED(cudaMemcpy2DFromArrayAsync, "arrays for textures are not supported")
SGLAB_REFUSED(cudaDestroyTextureObject, "textures are not supported")
SGLAB_REFUSED(cudaCreateSurfaceObject, "surfaces are not supported")
SGLAB_REFUSED(cudaDestroySurfaceObject, "surfaces are not supported")
SGLAB_REFUSED(cudaDeviceEnablePeerAccess, "there is one emulated GPU")
SGLAB_REFUSED(cudaMemcpyPeer, "there is one emulated GPU")

// What a texture's elements are: only said, so that a program arrives at the call that is refused.
struct ChannelFormat {
  int x, y, z, w;  // bits
  int kind;
};
SGLAB_CUDA_API ChannelFormat cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}
