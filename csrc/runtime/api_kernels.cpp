// Registering and launching kernels: what nvcc's host code calls.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/emulator_launcher.hpp"
#include "runtime/launch.hpp"
#include "runtime/streams.hpp"

using namespace sglab::runtime;

namespace {

struct Configuration {
  Dim3 grid, block;
  std::size_t smem = 0;
  Stream stream = nullptr;
};
thread_local std::vector<Configuration> configurations;  // of <<<...>>> under way

Function* find(const void* stub) {
  State& state = State::get();
  const auto found = state.functions.find(stub);
  return found == state.functions.end() ? nullptr : &found->second;
}

std::uint64_t count(Dim3 d) {
  return std::uint64_t{d.x} * d.y * d.z;
}

// As many CTAs as shared memory and threads allow; the emulator has no register file to run out of. Of a
// kernel that was not registered, static shared memory is unknown and not counted.
Status occupancy(const void* stub, std::uint64_t threads, std::size_t smem, int& blocks) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const SglabDevice& device = state.device;
  const Function* const function = find(stub);
  if (function != nullptr) {
    const FatbinPtx* const ptx = state.ptx_for(*function->module);
    if (ptx == nullptr) return kNoKernelImageForDevice;
    return resident_ctas(*ptx, function->name, threads, smem, device, blocks);
  }
  const int by_threads = device.threads_per_sm / static_cast<int>((threads + 31) / 32 * 32);
  const int by_smem = static_cast<int>(device.smem_per_sm / (smem + 1024));
  blocks = std::min({by_threads, by_smem, device.ctas_per_sm});
  return kSuccess;
}

// CTAs that are launched to wait for each other must all be resident at once.
Status check_cooperative(const void* stub, Dim3 grid, Dim3 block, std::size_t smem) {
  const std::uint64_t threads = count(block);
  if (threads == 0 || threads > 1024) return kSuccess;  // refused as any launch is
  int per_sm = 0;
  if (const Status status = occupancy(stub, threads, smem, per_sm); status != kSuccess) return status;
  const std::uint64_t most = static_cast<std::uint64_t>(per_sm) * State::get().device.sms;
  if (count(grid) <= most) return kSuccess;
  const std::string text = "a cooperative launch of " + std::to_string(count(grid)) + " CTAs; the GPU's " +
                           std::to_string(State::get().device.sms) + " SMs hold " + std::to_string(most) +
                           " at once, " + std::to_string(per_sm) + " each";
  std::fprintf(stderr, "sglab: %s\n", text.c_str());  // few programs print the text of an error
  return fail(kCooperativeLaunchTooLarge, text);
}

}  // namespace

SGLAB_CUDA_API void** __cudaRegisterFatBinary(void* wrapper) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.modules.push_back({read_fatbin(wrapper)});
  return reinterpret_cast<void**>(&state.modules.back());
}

SGLAB_CUDA_API void __cudaRegisterFatBinaryEnd(void**) {}

SGLAB_CUDA_API void __cudaUnregisterFatBinary(void** handle) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  std::erase_if(state.functions, [handle](const auto& entry) {
    return entry.second.module == reinterpret_cast<Module*>(handle);
  });
}

SGLAB_CUDA_API char __cudaInitModule(void**) {
  return 1;
}

SGLAB_CUDA_API void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int,
                                           void*, void*, void*, void*, int*) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.functions[stub] = {reinterpret_cast<Module*>(handle), name};
}

SGLAB_CUDA_API void __cudaRegisterVar(void** handle, char* variable, char*, const char* name, int,
                                      std::size_t bytes, int, int) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.variables[variable] = {reinterpret_cast<Module*>(handle), name, bytes};
}
SGLAB_CUDA_API void __cudaRegisterManagedVar(void** handle, void** variable, char*, const char* name, int,
                                             std::size_t bytes, int, int) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.variables[variable] = {reinterpret_cast<Module*>(handle), name, bytes};
}

SGLAB_CUDA_API unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t smem, Stream stream) {
  configurations.push_back({grid, block, smem, stream});
  return 0;
}

SGLAB_CUDA_API Status __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* smem, void* stream) {
  if (configurations.empty())
    return fail(kMissingConfiguration, "a kernel stub was called without <<<...>>>");
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *smem = top.smem;
  *static_cast<Stream*>(stream) = top.stream;
  return kSuccess;
}

SGLAB_CUDA_API Status __cudaGetKernel(void** kernel, const void* stub) {
  *kernel = const_cast<void*>(stub);
  return kSuccess;
}

SGLAB_CUDA_API Status cudaLaunchKernel(const void* stub, Dim3 grid, Dim3 block, void** arguments,
                                       std::size_t smem, Stream stream) {
  return submit_launch(stream, stub, grid, block, Dim3{}, smem, arguments);
}

SGLAB_CUDA_API Status __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                         std::size_t smem, Stream stream) {
  return submit_launch(stream, kernel, grid, block, Dim3{}, smem, arguments);
}

SGLAB_CUDA_API Status __cudaLaunchKernel_ptsz(void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                              std::size_t smem, Stream stream) {
  return submit_launch(stream, kernel, grid, block, Dim3{}, smem, arguments);
}

SGLAB_CUDA_API Status cudaLaunchCooperativeKernel(const void* stub, Dim3 grid, Dim3 block, void** arguments,
                                                  std::size_t smem, Stream stream) {
  if (const Status status = check_cooperative(stub, grid, block, smem); status != kSuccess) return status;
  return submit_launch(stream, stub, grid, block, Dim3{}, smem, arguments);
}

SGLAB_CUDA_API Status cudaLaunchKernelExC(const LaunchConfig* config, const void* stub, void** arguments) {
  for (std::uint32_t i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    switch (attribute.id) {
      case kAttributeClusterDimension:
      case kAttributeIgnore:
      case kAttributeProgrammaticStreamSerialization:  // launches follow one another: nothing to overlap
      case kAttributePriority:
      case kAttributePreferredClusterDimension:  // a wish that a device may leave unmet
        break;
      case kAttributeCooperative:
        if (attribute.cooperative == 0) break;
        if (const Status status = check_cooperative(stub, config->grid, config->block, config->dynamic_smem);
            status != kSuccess)
          return status;
        break;
      default:
        return fail(kNotSupported, "launch attribute " + std::to_string(attribute.id) + " is not supported");
    }
  }
  return submit_launch(config->stream, stub, config->grid, config->block, cluster_of(*config),
                       config->dynamic_smem, arguments);
}

SGLAB_CUDA_API Status cudaFuncSetAttribute(const void* stub, int attribute, int value) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  Function* const function = find(stub);
  if (function == nullptr) return fail(kInvalidDeviceFunction, "this kernel was never registered");
  if (attribute == kMaxDynamicSharedMemorySize) {
    if (value < 0 || value > state.device.smem_per_block) {
      return fail(kInvalidValue, function->name + ": " + std::to_string(value) +
                                     " bytes of dynamic shared memory; " +
                                     std::to_string(state.device.smem_per_block) + " exist");
    }
    function->max_dynamic_smem = value;
  }
  if (attribute == kNonPortableClusterSizeAllowed) function->non_portable_cluster = value != 0;
  return kSuccess;
}

SGLAB_CUDA_API Status cudaFuncSetCacheConfig(const void*, int) {
  return kSuccess;
}

SGLAB_CUDA_API Status cudaFuncGetAttributes(FunctionAttributes* attributes, const void* stub) {
  const std::lock_guard lock(State::get().mutex);
  const Function* const function = find(stub);
  if (function == nullptr) return fail(kInvalidDeviceFunction, "this kernel was never registered");
  *attributes = {};
  attributes->max_threads = 1024;
  attributes->registers = 32;
  attributes->ptx_version = attributes->binary_version = State::get().capability();
  attributes->max_dynamic_shared = function->max_dynamic_smem;
  attributes->non_portable_cluster = function->non_portable_cluster;
  return kSuccess;
}

SGLAB_CUDA_API Status cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub,
                                                                             int threads, std::size_t smem,
                                                                             unsigned) {
  if (threads < 1 || threads > 1024) return fail(kInvalidValue, "a block has 1 to 1024 threads");
  return occupancy(stub, threads, smem, *blocks);
}

SGLAB_CUDA_API Status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub,
                                                                    int threads, std::size_t smem) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads, smem, 0);
}

// As many as the SMs together hold; that a cluster must lie within one of a GPU's parts is left out.
SGLAB_CUDA_API Status cudaOccupancyMaxActiveClusters(int* clusters, const void* stub,
                                                     const LaunchConfig* config) {
  const Dim3 cluster = cluster_of(*config);
  const std::uint32_t ctas = cluster.x * cluster.y * cluster.z;
  if (ctas == 0) return fail(kInvalidValue, "a cluster has 1 CTA or more along each dimension");
  int blocks = 0;
  const auto threads = static_cast<int>(config->block.x * config->block.y * config->block.z);
  const Status status =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, stub, threads, config->dynamic_smem);
  if (status == kSuccess) *clusters = State::get().device.sms * blocks / static_cast<int>(ctas);
  return status;
}
