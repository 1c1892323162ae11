// Compiled, never run: sglab's own description of the CUDA runtime's interface against NVIDIA's headers.
#include <cuda_runtime.h>

#include "runtime/abi.hpp"

using namespace sglab::runtime;
using Place = DeviceProperties;

#define SAME_FIELD(place, field) static_assert(Place::place == offsetof(cudaDeviceProp, field))
static_assert(sizeof(DeviceProperties) == sizeof(cudaDeviceProp));
SAME_FIELD(kName, name);
SAME_FIELD(kTotalGlobalMem, totalGlobalMem);
SAME_FIELD(kSharedMemPerBlock, sharedMemPerBlock);
SAME_FIELD(kRegsPerBlock, regsPerBlock);
SAME_FIELD(kWarpSize, warpSize);
SAME_FIELD(kMaxThreadsPerBlock, maxThreadsPerBlock);
SAME_FIELD(kMaxThreadsDim, maxThreadsDim);
SAME_FIELD(kMaxGridSize, maxGridSize);
SAME_FIELD(kTotalConstMem, totalConstMem);
SAME_FIELD(kMajor, major);
SAME_FIELD(kMinor, minor);
SAME_FIELD(kMultiProcessorCount, multiProcessorCount);
SAME_FIELD(kConcurrentKernels, concurrentKernels);
SAME_FIELD(kUnifiedAddressing, unifiedAddressing);
SAME_FIELD(kMaxThreadsPerMultiProcessor, maxThreadsPerMultiProcessor);
SAME_FIELD(kSharedMemPerMultiprocessor, sharedMemPerMultiprocessor);
SAME_FIELD(kRegsPerMultiprocessor, regsPerMultiprocessor);
SAME_FIELD(kSharedMemPerBlockOptin, sharedMemPerBlockOptin);
SAME_FIELD(kMaxBlocksPerMultiProcessor, maxBlocksPerMultiProcessor);
SAME_FIELD(kReservedSharedMemPerBlock, reservedSharedMemPerBlock);
SAME_FIELD(kClusterLaunch, clusterLaunch);

static_assert(sizeof(FunctionAttributes) == sizeof(cudaFuncAttributes));
static_assert(offsetof(FunctionAttributes, non_portable_cluster) ==
              offsetof(cudaFuncAttributes, nonPortableClusterSizeAllowed));
static_assert(sizeof(PointerAttributes) == sizeof(cudaPointerAttributes));
static_assert(offsetof(PointerAttributes, device_pointer) == offsetof(cudaPointerAttributes, devicePointer));
static_assert(sizeof(LaunchConfig) == sizeof(cudaLaunchConfig_t));
static_assert(offsetof(LaunchConfig, dynamic_smem) == offsetof(cudaLaunchConfig_t, dynamicSmemBytes));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(cudaLaunchConfig_t, numAttrs));
static_assert(sizeof(LaunchAttribute) == sizeof(cudaLaunchAttribute));
static_assert(offsetof(LaunchAttribute, cluster) == offsetof(cudaLaunchAttribute, val));

static_assert(kAttributeIgnore == cudaLaunchAttributeIgnore);
static_assert(kAttributeCooperative == cudaLaunchAttributeCooperative);
static_assert(kAttributeClusterDimension == cudaLaunchAttributeClusterDimension);
static_assert(kAttributeProgrammaticStreamSerialization ==
              cudaLaunchAttributeProgrammaticStreamSerialization);
static_assert(kAttributePriority == cudaLaunchAttributePriority);
static_assert(kAttributePreferredClusterDimension == cudaLaunchAttributePreferredClusterDimension);
static_assert(kMaxDynamicSharedMemorySize == cudaFuncAttributeMaxDynamicSharedMemorySize);
static_assert(kNonPortableClusterSizeAllowed == cudaFuncAttributeNonPortableClusterSizeAllowed);

static_assert(kInvalidValue == cudaErrorInvalidValue && kMemoryAllocation == cudaErrorMemoryAllocation);
static_assert(kInvalidConfiguration == cudaErrorInvalidConfiguration &&
              kInvalidSymbol == cudaErrorInvalidSymbol);
static_assert(kMissingConfiguration == cudaErrorMissingConfiguration && kNoDevice == cudaErrorNoDevice);
static_assert(kInvalidDeviceFunction == cudaErrorInvalidDeviceFunction &&
              kInvalidDevice == cudaErrorInvalidDevice);
static_assert(kInvalidKernelImage == cudaErrorInvalidKernelImage);
static_assert(kNoKernelImageForDevice == cudaErrorNoKernelImageForDevice);
static_assert(kInvalidResourceHandle == cudaErrorInvalidResourceHandle &&
              kSymbolNotFound == cudaErrorSymbolNotFound);
static_assert(kLaunchFailure == cudaErrorLaunchFailure && kNotSupported == cudaErrorNotSupported);
