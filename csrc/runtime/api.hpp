// Functions of the CUDA runtime that the driver's interface is built on.
#pragma once

#include "runtime/abi.hpp"
#include "runtime/streams.hpp"

using sglab::runtime::CaptureMode;
using sglab::runtime::CaptureStatus;
using sglab::runtime::CopyParameters;
using sglab::runtime::Dim3;
using sglab::runtime::EdgeData;
using sglab::runtime::Event;
using sglab::runtime::FunctionAttributes;
using sglab::runtime::LaunchConfig;
using sglab::runtime::PointerAttributes;
using sglab::runtime::Status;
using sglab::runtime::Stream;

extern "C" {
Status cudaDeviceGetAttribute(int* value, int attribute, int device);
Status cudaDeviceGetDefaultMemPool(void** pool, int device);
Status cudaDeviceGetLimit(std::size_t* value, int limit);
Status cudaDeviceGetPCIBusId(char* id, int bytes, int device);
Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
Status cudaDeviceSetLimit(int limit, std::size_t value);
Status cudaDeviceSynchronize();
Status cudaDriverGetVersion(int* version);
const char* cudaGetErrorString(Status status);

Status cudaFuncGetAttributes(FunctionAttributes* attributes, const void* stub);
Status cudaFuncSetAttribute(const void* stub, int attribute, int value);
Status cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int threads,
                                                              std::size_t smem, unsigned flags);
Status cudaOccupancyMaxActiveClusters(int* clusters, const void* stub, const LaunchConfig* config);
Status cudaLaunchKernelExC(const LaunchConfig* config, const void* stub, void** arguments);

Status cudaFree(void* pointer);
Status cudaFreeAsync(void* pointer, Stream stream);
Status cudaMalloc(void** pointer, std::size_t bytes);
Status cudaMallocAsync(void** pointer, std::size_t bytes, Stream stream);
Status cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height);
Status cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total);
Status cudaMemcpy2DAsync(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                         std::size_t width, std::size_t height, int kind, Stream stream);
Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer);
}
