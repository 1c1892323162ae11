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
SAME_FIELD(kMemPitch, memPitch);
SAME_FIELD(kTextureAlignment, textureAlignment);
SAME_FIELD(kCanMapHostMemory, canMapHostMemory);
SAME_FIELD(kAsyncEngineCount, asyncEngineCount);
SAME_FIELD(kMemoryBusWidth, memoryBusWidth);
SAME_FIELD(kL2CacheSize, l2CacheSize);
SAME_FIELD(kStreamPrioritiesSupported, streamPrioritiesSupported);
SAME_FIELD(kGlobalL1CacheSupported, globalL1CacheSupported);
SAME_FIELD(kLocalL1CacheSupported, localL1CacheSupported);
SAME_FIELD(kManagedMemory, managedMemory);
SAME_FIELD(kPageableMemoryAccess, pageableMemoryAccess);
SAME_FIELD(kConcurrentManagedAccess, concurrentManagedAccess);
SAME_FIELD(kCanUseHostPointerForRegisteredMem, canUseHostPointerForRegisteredMem);
SAME_FIELD(kCooperativeLaunch, cooperativeLaunch);
SAME_FIELD(kHostRegisterSupported, hostRegisterSupported);
SAME_FIELD(kMemoryPoolsSupported, memoryPoolsSupported);

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

static_assert(kNotInitialized == cudaErrorInitializationError && kIllegalState == cudaErrorIllegalState);
static_assert(kInvalidContext == cudaErrorDeviceUninitialized && kFileNotFound == cudaErrorFileNotFound);
static_assert(kStreamCaptureUnsupported == cudaErrorStreamCaptureUnsupported);
static_assert(kStreamCaptureInvalidated == cudaErrorStreamCaptureInvalidated);
static_assert(kStreamCaptureMerge == cudaErrorStreamCaptureMerge);
static_assert(kStreamCaptureUnmatched == cudaErrorStreamCaptureUnmatched);
static_assert(kStreamCaptureUnjoined == cudaErrorStreamCaptureUnjoined);
static_assert(kStreamCaptureIsolation == cudaErrorStreamCaptureIsolation);
static_assert(kStreamCaptureImplicit == cudaErrorStreamCaptureImplicit);
static_assert(kCapturedEvent == cudaErrorCapturedEvent);
static_assert(kStreamCaptureWrongThread == cudaErrorStreamCaptureWrongThread);
static_assert(kGraphExecUpdateFailure == cudaErrorGraphExecUpdateFailure);

static_assert(sizeof(EdgeData) == sizeof(cudaGraphEdgeData));
static_assert(sizeof(KernelNodeParameters) == sizeof(cudaKernelNodeParams));
static_assert(offsetof(KernelNodeParameters, arguments) == offsetof(cudaKernelNodeParams, kernelParams));
static_assert(sizeof(CopyParameters) == sizeof(cudaMemcpy3DParms));
static_assert(offsetof(CopyParameters, target) == offsetof(cudaMemcpy3DParms, dstPtr));
static_assert(offsetof(CopyParameters, extent) == offsetof(cudaMemcpy3DParms, extent));
static_assert(sizeof(FillParameters) == sizeof(cudaMemsetParams));
static_assert(offsetof(FillParameters, width) == offsetof(cudaMemsetParams, width));
static_assert(sizeof(HostParameters) == sizeof(cudaHostNodeParams));
static_assert(sizeof(AllocationParameters) == sizeof(cudaMemAllocNodeParams));
static_assert(offsetof(AllocationParameters, pointer) == offsetof(cudaMemAllocNodeParams, dptr));
static_assert(sizeof(NodeParameters) == sizeof(cudaGraphNodeParams));
static_assert(offsetof(NodeParameters, kernel) == offsetof(cudaGraphNodeParams, kernel));
static_assert(offsetof(NodeParameters, copy.copy) == offsetof(cudaGraphNodeParams, memcpy.copyParams));
static_assert(sizeof(InstantiateParameters) == sizeof(cudaGraphInstantiateParams));
static_assert(sizeof(UpdateResult) == sizeof(cudaGraphExecUpdateResultInfo));
