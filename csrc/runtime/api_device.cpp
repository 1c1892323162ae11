// The device, errors and versions.
#include <cstring>
#include <utility>

#include "machine/engine/device_heap.hpp"
#include "runtime/errors.hpp"
#include "runtime/state.hpp"
#include "runtime/streams.hpp"

using namespace sglab::runtime;

namespace {

constexpr int kCudaVersion = 13000;

constexpr int kLastAttribute = 150;  // of CUDA 13

// cudaDeviceAttr, by number. 0 for what the emulated GPU does not have: textures, other GPUs, a bus.
int attribute_value(const SglabDevice& device, int attribute) {
  switch (attribute) {
    case 1:
      return 1024;  // threads per block
    case 2:
    case 3:
      return 1024;  // block x, y
    case 4:
      return 64;  // block z
    case 5:
      return 2147483647;  // grid x
    case 6:
    case 7:
      return 65535;  // grid y, z
    case 8:
      return kSmemWithoutOptIn;  // shared memory per block
    case 9:
      return 65536;  // constant memory
    case 10:
      return 32;  // warp size
    case 12:
    case 82:
      return 65536;  // registers per block, per multiprocessor
    case 16:
      return device.sms;  // multiprocessors
    case 18:
      return 0;  // integrated
    case 19:
    case 31:
    case 41:
      return 1;  // maps host memory, concurrent kernels, unified addressing
    case 20:
    case 32:
      return 0;  // compute mode, ECC
    case 39:
      return device.threads_per_sm;  // threads per multiprocessor
    case 75:
      return device.major;  // compute capability
    case 76:
      return device.minor;
    case 78:
    case 83:
      return 1;  // stream priorities, managed memory
    case 81:
      return device.smem_per_sm;  // shared memory per multiprocessor
    case 95:
      return 1;  // cooperative launch
    case 97:
      return device.smem_per_block;  // shared memory per block with the opt-in
    case 106:
      return device.ctas_per_sm;  // blocks per multiprocessor
    case 111:
      return 1024;  // reserved shared memory per block
    case 115:
      return 1;  // memory pools
    case 120:
      return device.max_cluster > 1;  // clusters
    case 11:
      return 2147483647;  // pitch
    case 13:
      return 1965000;  // clock, kHz: a B200's
    case 14:
    case 30:
      return 512;  // alignment of textures and surfaces
    case 15:
    case 40:
      return 1;  // copies beside kernels
    case 36:
      return 3996000;  // memory clock, kHz
    case 37:
      return 8192;  // memory bus, bits
    case 38:
      return 126 << 20;  // L2 cache, bytes
    case 79:
    case 80:
    case 89:
    case 91:
    case 99:
      return 1;  // caches of global and local memory; managed and registered host memory (not pageable)
    case 108:
      return 0;  // persisting L2 cache
    default:
      return 0;
  }
}

// Properties that are device attributes, too.
struct AttributeProperty {
  DeviceProperties::Place place;
  int attribute;
};

constexpr AttributeProperty kAttributeProperties[] = {
    {DeviceProperties::kCanMapHostMemory, 19},
    {DeviceProperties::kMemoryBusWidth, 37},
    {DeviceProperties::kL2CacheSize, 38},
    {DeviceProperties::kAsyncEngineCount, 40},
    {DeviceProperties::kStreamPrioritiesSupported, 78},
    {DeviceProperties::kGlobalL1CacheSupported, 79},
    {DeviceProperties::kLocalL1CacheSupported, 80},
    {DeviceProperties::kManagedMemory, 83},
    {DeviceProperties::kPageableMemoryAccess, 88},
    {DeviceProperties::kConcurrentManagedAccess, 89},
    {DeviceProperties::kCanUseHostPointerForRegisteredMem, 91},
    {DeviceProperties::kCooperativeLaunch, 95},
    {DeviceProperties::kHostRegisterSupported, 99},
    {DeviceProperties::kMemoryPoolsSupported, 115},
};

template <typename T>
void put(DeviceProperties* properties, DeviceProperties::Place place, const T& value) {
  std::memcpy(properties->bytes + place, &value, sizeof(value));
}

}  // namespace

SGLAB_CUDA_API Status cudaGetDeviceCount(int* count) {
  *count = 1;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGetDevice(int* device) {
  *device = 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaSetDevice(int device) {
  return device == 0 ? kSuccess : fail(kInvalidDevice, "there is one emulated GPU, number 0");
}
SGLAB_CUDA_API Status cudaDeviceSynchronize() {
  return synchronize_all("cudaDeviceSynchronize");
}
SGLAB_CUDA_API Status cudaDeviceReset() {
  sglab::emu::DeviceHeap::get().reset();
  return kSuccess;
}

SGLAB_CUDA_API Status cudaDeviceGetAttribute(int* value, int attribute, int device) {
  if (device != 0) return fail(kInvalidDevice, "there is one emulated GPU, number 0");
  if (attribute < 1 || attribute > kLastAttribute)
    return fail(kInvalidValue, "there is no device attribute " + std::to_string(attribute));
  *value = attribute_value(State::get().device, attribute);
  return kSuccess;
}

SGLAB_CUDA_API Status cudaGetDeviceProperties(DeviceProperties* properties, int index) {
  if (index != 0) return fail(kInvalidDevice, "there is one emulated GPU, number 0");
  using P = DeviceProperties;
  const State& state = State::get();
  const SglabDevice& device = state.device;
  *properties = {};
  std::strncpy(reinterpret_cast<char*>(properties->bytes), state.device_name.c_str(), 255);
  put(properties, P::kTotalGlobalMem, std::size_t{16} << 30);
  put(properties, P::kSharedMemPerBlock, std::size_t{kSmemWithoutOptIn});
  put(properties, P::kRegsPerBlock, 65536);
  put(properties, P::kWarpSize, 32);
  put(properties, P::kMaxThreadsPerBlock, 1024);
  const int block[3] = {1024, 1024, 64}, grid[3] = {2147483647, 65535, 65535};
  put(properties, P::kMaxThreadsDim, block);
  put(properties, P::kMaxGridSize, grid);
  put(properties, P::kTotalConstMem, std::size_t{65536});
  put(properties, P::kMajor, device.major);
  put(properties, P::kMinor, device.minor);
  put(properties, P::kMultiProcessorCount, device.sms);
  put(properties, P::kConcurrentKernels, 1);
  put(properties, P::kUnifiedAddressing, 1);
  put(properties, P::kMaxThreadsPerMultiProcessor, device.threads_per_sm);
  put(properties, P::kSharedMemPerMultiprocessor, static_cast<std::size_t>(device.smem_per_sm));
  put(properties, P::kRegsPerMultiprocessor, 65536);
  put(properties, P::kSharedMemPerBlockOptin, static_cast<std::size_t>(device.smem_per_block));
  put(properties, P::kMaxBlocksPerMultiProcessor, device.ctas_per_sm);
  put(properties, P::kReservedSharedMemPerBlock, std::size_t{1024});
  put(properties, P::kClusterLaunch, int{device.max_cluster > 1});
  put(properties, P::kMemPitch, std::size_t{2147483647});
  put(properties, P::kTextureAlignment, std::size_t{512});
  for (const auto& [place, attribute] : kAttributeProperties)
    put(properties, place, attribute_value(device, attribute));
  return kSuccess;
}

SGLAB_CUDA_API Status cudaDriverGetVersion(int* version) {
  *version = kCudaVersion;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaRuntimeGetVersion(int* version) {
  *version = kCudaVersion;
  return kSuccess;
}

SGLAB_CUDA_API Status cudaGetLastError() {
  return last_status(true);
}
SGLAB_CUDA_API Status cudaPeekAtLastError() {
  return last_status(false);
}
SGLAB_CUDA_API const char* cudaGetErrorName(Status status) {
  const ErrorWords* const words = words_for(status);
  return words == nullptr ? "unrecognized error code" : words->runtime_name;
}
SGLAB_CUDA_API const char* cudaGetErrorString(Status status) {
  if (const char* const explanation = explanation_of(status)) return explanation;
  const ErrorWords* const words = words_for(status);
  return words == nullptr ? "unrecognized error code" : words->text;
}
