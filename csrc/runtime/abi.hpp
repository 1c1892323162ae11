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
  kNotInitialized = 3,
  kInvalidConfiguration = 9,
  kInvalidSymbol = 13,
  kInvalidMemcpyDirection = 21,
  kMissingConfiguration = 52,
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidKernelImage = 200,
  kInvalidContext = 201,
  kNoKernelImageForDevice = 209,
  kFileNotFound = 301,
  kInvalidResourceHandle = 400,
  kIllegalState = 401,
  kSymbolNotFound = 500,
  kAssert = 710,
  kLaunchFailure = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kGraphExecUpdateFailure = 910,
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

// cudaGraphEdgeData: ports of programmatic launches, which order nothing here that is not ordered anyway.
struct EdgeData {
  std::uint8_t from_port, to_port, type, reserved[5];
};
static_assert(sizeof(EdgeData) == 8);

// cudaKernelNodeParams
struct KernelNodeParameters {
  const void* stub;
  Dim3 grid, block;
  std::uint32_t smem;
  void** arguments;
  void** extra;
};
static_assert(sizeof(KernelNodeParameters) == 56);

// cudaPitchedPtr, cudaPos, cudaExtent, cudaMemcpy3DParms
struct PitchedPointer {
  void* pointer;
  std::size_t pitch, width, height;
};
struct Triple {
  std::size_t x, y, z;
};
struct CopyParameters {
  void* source_array;
  Triple source_at;
  PitchedPointer source;
  void* target_array;
  Triple target_at;
  PitchedPointer target;
  Triple extent;
  int kind;
};
static_assert(sizeof(CopyParameters) == 160);

// cudaMemsetParams
struct FillParameters {
  void* target;
  std::size_t pitch;
  std::uint32_t value, element_bytes;
  std::size_t width, height;
};
static_assert(sizeof(FillParameters) == 40);

// cudaHostNodeParams
struct HostParameters {
  void (*function)(void*);
  void* data;
};

// cudaMemAllocNodeParams
struct AllocationParameters {
  std::byte pool[88];
  const void* access;
  std::size_t access_count;
  std::size_t bytes;
  void* pointer;
};
static_assert(sizeof(AllocationParameters) == 120);

// cudaGraphNodeParams: the kind, then a union.
struct NodeParameters {
  int kind;
  int reserved[3];
  union {
    long long whole[29];
    KernelNodeParameters kernel;
    struct {
      int flags, reserved[3];
      CopyParameters copy;
    } copy;
    FillParameters fill;
    HostParameters host;
    struct {
      void* graph;
      int ownership;
    } child;
    Event event;
    AllocationParameters allocation;
    void* freed;
  };
  long long end;
};
static_assert(sizeof(NodeParameters) == 256);

// cudaGraphInstantiateParams, cudaGraphExecUpdateResultInfo
struct InstantiateParameters {
  unsigned long long flags;
  Stream upload;
  void* failed;
  int result;
};
struct UpdateResult {
  int result;
  void* node;
  void* from;
};

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
    kMemPitch = 312,
    kTextureAlignment = 368,
    kCanMapHostMemory = 392,
    kAsyncEngineCount = 584,
    kMemoryBusWidth = 592,
    kL2CacheSize = 596,
    kStreamPrioritiesSupported = 608,
    kGlobalL1CacheSupported = 612,
    kLocalL1CacheSupported = 616,
    kManagedMemory = 636,
    kPageableMemoryAccess = 652,
    kConcurrentManagedAccess = 656,
    kCanUseHostPointerForRegisteredMem = 664,
    kCooperativeLaunch = 668,
    kHostRegisterSupported = 704,
    kMemoryPoolsSupported = 720,
  };
};

}  // namespace sglab::runtime

// Exported under CUDA's own names.
#define SGLAB_CUDA_API extern "C" __attribute__((visibility("default")))
