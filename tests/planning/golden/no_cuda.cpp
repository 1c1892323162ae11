// The CUDA runtime that FlashInfer's planners ask, for a machine without a GPU: a device of as many SMs, and
// as many blocks per SM, as the driver program was given.
#include <cstddef>
#include <cstring>

int sm_count = 0, blocks_per_sm = 0;

extern "C" {
int cudaGetDevice(int* device) {
  return *device = 0;
}
int cudaDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 16:
      *value = sm_count;
      break;  // cudaDevAttrMultiProcessorCount
    case 75:
      *value = 9;
      break;  // cudaDevAttrComputeCapabilityMajor
    case 76:
      *value = 0;
      break;  // cudaDevAttrComputeCapabilityMinor
    case 81:
      *value = 233'472;
      break;  // cudaDevAttrMaxSharedMemoryPerMultiprocessor, of an H100
    case 97:
      *value = 232'448;
      break;  // cudaDevAttrMaxSharedMemoryPerBlockOptin, of an H100
    default:
      return 1;  // another planner queries another fact: add it here
  }
  return 0;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = blocks_per_sm;
  return 0;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = blocks_per_sm;
  return 0;
}
int cudaMemcpyAsync(void* to, const void* from, size_t size, int, void*) {
  std::memcpy(to, from, size);
  return 0;
}
const char* cudaGetErrorString(int) {
  return "";
}
int cudaGetLastError() {
  return 0;
}
int cudaLaunchKernel(const void*, ...) {
  return 1;
}

// What nvcc's own start-up code calls.
void** __cudaRegisterFatBinary(void*) {
  return nullptr;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, ...) {}
void __cudaRegisterVar(void**, ...) {}
char __cudaInitModule(void**) {
  return 1;
}
unsigned __cudaPushCallConfiguration(...) {
  return 1;
}
int __cudaPopCallConfiguration(...) {
  return 1;
}
int __cudaGetKernel(...) {
  return 1;
}
int __cudaLaunchKernel(...) {
  return 1;
}
}
