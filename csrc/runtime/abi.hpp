// The part of the CUDA 13 runtime's binary interface that host programs compiled by nvcc rely on. Written
// from NVIDIA's public headers so that building sglab needs no CUDA toolkit; tests compare it with those
// headers where they exist.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sglab::runtime {

using Stream = void*;
using Event = void*;

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

// cudaError_t
enum Status : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kMemoryAllocation = 2,
  kInvalidConfiguration = 9,
  kInvalidSymbol = 13,
  kInvalidMemcpyDirection = 21,
  kMissingConfiguration = 52,
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidKernelImage = 200,
  kNoKernelImageForDevice = 209,
  kInvalidResourceHandle = 400,
  kSymbolNotFound = 500,
  kLaunchFailure = 719,
  kNotSupported = 801,
  kUnknown = 999,
};

// cudaLaunchAttributeID
enum : std::uint32_t {
  kAttributeIgnore = 0,
  kAttributeCooperative = 2,
  kAttributeClusterDimension = 4,
  kAttributeProgrammaticStreamSerialization = 6,
  kAttributePriority = 8,
  kAttributePreferredClusterDimension = 11,
};

// cudaLaunchAttribute: a 64-byte union after the identifier.
struct LaunchAttribute {
  std::uint32_t id;
  std::uint32_t padding;
  union {
    Dim3 cluster;
    int cooperative;
    std::byte bytes[64];
  };
};
static_assert(sizeof(LaunchAttribute) == 72);

// cudaLaunchConfig_t
struct LaunchConfig {
  Dim3 grid, block;
  std::size_t dynamic_smem;
  Stream stream;
  const LaunchAttribute* attributes;
  std::uint32_t attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

// cudaFuncAttribute
enum : int { kMaxDynamicSharedMemorySize = 8, kNonPortableClusterSizeAllowed = 14 };

// cudaFuncAttributes
struct FunctionAttributes {
  std::size_t shared_bytes, constant_bytes, local_bytes;
  int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
  int cluster_must_be_set, cluster_width, cluster_height, cluster_depth, cluster_policy, non_portable_cluster;
  int reserved[16];
};
static_assert(offsetof(FunctionAttributes, max_dynamic_shared) == 44);

// cudaPointerAttributes
struct PointerAttributes {
  int type;  // 0 unregistered, 1 host, 2 device, 3 managed
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};
static_assert(sizeof(PointerAttributes) == 88);

// cudaDeviceProp: its size, and where the fields are that programs read; the rest is zero.
struct DeviceProperties {
  alignas(8) std::byte bytes[1008];
  enum Place : std::size_t {
    kName = 0,
    kTotalGlobalMem = 288,
    kSharedMemPerBlock = 296,
    kRegsPerBlock = 304,
    kWarpSize = 308,
    kMaxThreadsPerBlock = 320,
    kMaxThreadsDim = 324,
    kMaxGridSize = 336,
    kTotalConstMem = 352,
    kMajor = 360,
    kMinor = 364,
    kMultiProcessorCount = 384,
    kConcurrentKernels = 560,
    kUnifiedAddressing = 588,
    kMaxThreadsPerMultiProcessor = 604,
    kSharedMemPerMultiprocessor = 624,
    kRegsPerMultiprocessor = 632,
    kSharedMemPerBlockOptin = 672,
    kMaxBlocksPerMultiProcessor = 688,
    kReservedSharedMemPerBlock = 696,
    kClusterLaunch = 748,
  };
};

}  // namespace sglab::runtime

// Exported under CUDA's own names.
#define SGLAB_CUDA_API extern "C" __attribute__((visibility("default")))
