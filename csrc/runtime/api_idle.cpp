// What has nothing to do on an emulated GPU, where every call is over when it returns and memory is the
// host's.
#include <cstring>

#include "machine/engine/device_heap.hpp"
#include "runtime/launch.hpp"
#include "runtime/state.hpp"

using namespace sglab::runtime;

namespace {

// cudaLimit values that programs read back: as set, at first what a GPU starts with.
constexpr int kHeapLimit = 2;  // cudaLimitMallocHeapSize
bool heap_limit_set = false;
std::size_t limits[8] = {1024, 8u << 20, 8u << 20, 2, 2048, 128, 0, 0};

}  // namespace

#define SGLAB_IDLE(function, parameters)      \
  SGLAB_CUDA_API Status function parameters { \
    return kSuccess;                          \
  }

SGLAB_IDLE(cudaProfilerStart, ())
SGLAB_IDLE(cudaProfilerStop, ())
SGLAB_IDLE(cudaInitDevice, (int, unsigned, unsigned))
SGLAB_IDLE(cudaSetDeviceFlags, (unsigned))
SGLAB_IDLE(cudaSetValidDevices, (int*, int))
SGLAB_IDLE(cudaDeviceSetCacheConfig, (int))
SGLAB_IDLE(cudaDeviceSetSharedMemConfig, (int))
SGLAB_IDLE(cudaFuncSetSharedMemConfig, (const void*, int))
SGLAB_IDLE(cudaCtxResetPersistingL2Cache, ())
SGLAB_IDLE(cudaStreamAttachMemAsync, (Stream, void*, std::size_t, unsigned))
SGLAB_IDLE(cudaStreamSetAttribute, (Stream, int, const void*))
SGLAB_IDLE(cudaStreamCopyAttributes, (Stream, Stream))
SGLAB_IDLE(cudaHostRegister, (void*, std::size_t, unsigned))
SGLAB_IDLE(cudaHostUnregister, (void*))
SGLAB_IDLE(cudaMemAdvise, (const void*, std::size_t, int, int))
SGLAB_IDLE(cudaMemPrefetchAsync, (const void*, std::size_t, int, Stream))
SGLAB_IDLE(cudaMemPoolSetAttribute, (void*, int, void*))
SGLAB_IDLE(cudaMemPoolTrimTo, (void*, std::size_t))
SGLAB_IDLE(cudaMemPoolDestroy, (void*))
SGLAB_IDLE(cudaDeviceSetMemPool, (int, void*))

SGLAB_CUDA_API Status cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaChooseDevice(int* device, const void*) {
  *device = 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaDeviceGetPCIBusId(char* id, int bytes, int) {
  std::strncpy(id, "0000:00:00.0", static_cast<std::size_t>(bytes));
  return kSuccess;
}
SGLAB_CUDA_API Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaStreamGetPriority(Stream, int* priority) {
  *priority = 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaStreamGetDevice(Stream, int* device) {
  *device = 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return kSuccess;
}

SGLAB_CUDA_API Status cudaDeviceSetLimit(int limit, std::size_t value) {
  if (limit < 0 || limit >= 8) return fail(kInvalidValue, "there is no limit " + std::to_string(limit));
  if (limit == kHeapLimit && !sglab::emu::DeviceHeap::get().resize(value))
    return fail(
        kInvalidValue,
        "the heap of kernels has memory already: set its size before the first kernel that allocates");
  heap_limit_set |= limit == kHeapLimit;
  limits[limit] = value;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaDeviceGetLimit(std::size_t* value, int limit) {
  if (limit < 0 || limit >= 8) return fail(kInvalidValue, "there is no limit " + std::to_string(limit));
  *value = limits[limit];
  return kSuccess;
}

std::uint64_t sglab::runtime::heap_limit() {
  return heap_limit_set ? limits[kHeapLimit] : 0;
}

// One pool, from which all memory comes.
SGLAB_CUDA_API Status cudaDeviceGetDefaultMemPool(void** pool, int) {
  *pool = limits;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaDeviceGetMemPool(void** pool, int) {
  *pool = limits;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaMemPoolCreate(void** pool, const void*) {
  *pool = limits;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaMemPoolGetAttribute(void*, int, void* value) {
  std::memset(value, 0, sizeof(std::uint64_t));
  return kSuccess;
}
