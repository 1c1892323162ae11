// Modules, libraries, kernels and launches of the driver.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include "runtime/driver.hpp"
#include "runtime/emulator_launcher.hpp"
#include "runtime/launch.hpp"
#include "runtime/node_parameters.hpp"

using namespace sglab::runtime;

namespace {

// A module's kernels, by name; a handle is an entry's address, known to State::functions like a host stub.
struct Loaded {
  explicit Loaded(Module* given) : module(given) {}
  Module* module;  // stays when the program unloads it: launches keep pointers to its text
  std::map<std::string, std::unique_ptr<char>> kernels;
};

std::map<void*, std::unique_ptr<Loaded>>& all() {
  static auto* const modules = new std::map<void*, std::unique_ptr<Loaded>>;
  return *modules;
}

Status load(void** handle, const void* image, const char* call) {
  *handle = nullptr;
  if (const Status status = needs_context(call); status != kSuccess) return status;
  if (image == nullptr) return fail(kInvalidValue, std::string(call) + ": no image");
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.loaded.push_back({read_image(image)});
  Module& module = state.loaded.back();
  if (state.ptx_for(module) == nullptr) {
    state.loaded.pop_back();
    return kNoKernelImageForDevice;
  }
  auto made = std::make_unique<Loaded>(&module);
  *handle = made.get();
  all()[*handle] = std::move(made);
  return kSuccess;
}

Status load_file(void** handle, const char* path, const char* call) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(kFileNotFound, std::string(call) + ": cannot read " + path);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  return load(handle, image.c_str(), call);
}

Loaded* find(void* handle) {
  const auto found = all().find(handle);
  if (found != all().end()) return found->second.get();
  fail(kInvalidResourceHandle, "this module was never loaded, or was unloaded");
  return nullptr;
}

Status kernel_of(void** kernel, void* handle, const char* name) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  Loaded* const loaded = find(handle);
  if (loaded == nullptr) return kInvalidResourceHandle;
  std::unique_ptr<char>& entry = loaded->kernels[name];
  if (entry == nullptr) {
    std::vector<ParameterPlace> places;
    if (parameters_of(*state.ptx_for(*loaded->module), name, places) != kSuccess) {
      loaded->kernels.erase(name);
      return fail(kSymbolNotFound, explanation_of(kInvalidKernelImage));
    }
    entry = std::make_unique<char>();
    state.functions[entry.get()] = {loaded->module, name};
  }
  *kernel = entry.get();
  return kSuccess;
}

Status unload(void* handle) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const Loaded* const loaded = find(handle);
  if (loaded == nullptr) return kInvalidResourceHandle;
  for (const auto& [name, entry] : loaded->kernels) state.functions.erase(entry.get());
  all().erase(handle);
  return kSuccess;
}

Status variable_of(DevicePointer* address, std::size_t* bytes, void* handle, const char* name) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const Loaded* const loaded = find(handle);
  if (loaded == nullptr) return kInvalidResourceHandle;
  if (state.finder == nullptr)
    return fail(kNotSupported,
                std::string(name) + ": only programs of their own (sglab run-program) reach variables");
  const FatbinPtx& ptx = *state.ptx_for(*loaded->module);
  std::uint64_t size = 0;
  void* const place = state.finder(ptx.text.c_str(), ptx.text.size(), name, &size);
  if (place == nullptr) return fail(kSymbolNotFound, std::string("the module has no variable ") + name);
  if (address != nullptr) *address = reinterpret_cast<DevicePointer>(place);
  if (bytes != nullptr) *bytes = size;
  return kSuccess;
}

// What cuLaunchKernel* share; attributes as in LaunchConfig.
Status launch_with(LaunchConfig config, void* kernel, void** arguments, void** extra, const char* call) {
  if (const Status status = needs_context(call); status != kSuccess) return status;
  {
    const std::lock_guard lock(State::get().mutex);
    if (!State::get().functions.contains(kernel))
      return fail(kInvalidResourceHandle,
                  std::string(call) + ": this is no kernel, or its module was unloaded");
  }
  const void* const buffer = buffer_of(extra);
  if (buffer == nullptr) return cudaLaunchKernelExC(&config, kernel, arguments);
  if (arguments != nullptr)
    return fail(kInvalidValue, std::string(call) + ": kernelParams and extra are given; a launch takes one");
  return submit_launch(config.stream, kernel, config.grid, config.block, cluster_of(config),
                       config.dynamic_smem, nullptr, buffer);
}

// CUlaunchConfig: as the runtime's, with a shorter size.
struct DriverConfig {
  Dim3 grid, block;
  std::uint32_t smem;
  Stream stream;
  const LaunchAttribute* attributes;
  std::uint32_t attribute_count;
};
static_assert(sizeof(DriverConfig) == 56);

Status attribute_of(int* value, int attribute, void* kernel) {
  FunctionAttributes all_of;
  if (const Status status = cudaFuncGetAttributes(&all_of, kernel); status != kSuccess) return status;
  const int sizes[] = {all_of.max_threads,
                       static_cast<int>(all_of.shared_bytes),
                       static_cast<int>(all_of.constant_bytes),
                       static_cast<int>(all_of.local_bytes),
                       all_of.registers,
                       all_of.ptx_version,
                       all_of.binary_version,
                       all_of.cache_mode,
                       all_of.max_dynamic_shared,
                       all_of.carveout,
                       all_of.cluster_must_be_set,
                       all_of.cluster_width,
                       all_of.cluster_height,
                       all_of.cluster_depth,
                       all_of.non_portable_cluster,
                       all_of.cluster_policy};
  if (attribute < 0 || attribute >= static_cast<int>(std::size(sizes)))
    return fail(kInvalidValue, "there is no function attribute " + std::to_string(attribute));
  *value = sizes[attribute];
  return kSuccess;
}

Status parameter_info(void* kernel, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const auto found = state.functions.find(kernel);
  if (found == state.functions.end()) return fail(kInvalidResourceHandle, "this is no kernel");
  std::vector<ParameterPlace> places;
  const FatbinPtx& ptx = *state.ptx_for(*found->second.module);
  if (const Status status = parameters_of(ptx, found->second.name, places); status != kSuccess) return status;
  if (index >= places.size())
    return fail(kInvalidValue, "the kernel has " + std::to_string(places.size()) + " parameters");
  *offset = places[index].offset;
  if (bytes != nullptr) *bytes = places[index].bytes;
  return kSuccess;
}

}  // namespace

SGLAB_CUDA_API Status cuModuleLoad(void** module, const char* path) {
  return load_file(module, path, "cuModuleLoad");
}
SGLAB_CUDA_API Status cuModuleLoadData(void** module, const void* image) {
  return load(module, image, "cuModuleLoadData");
}
SGLAB_CUDA_API Status cuModuleLoadDataEx(void** module, const void* image, unsigned, void*, void**) {
  return load(module, image, "cuModuleLoadDataEx");
}
SGLAB_CUDA_API Status cuModuleLoadFatBinary(void** module, const void* image) {
  return load(module, image, "cuModuleLoadFatBinary");
}
SGLAB_CUDA_API Status cuModuleUnload(void* module) {
  return unload(module);
}
SGLAB_CUDA_API Status cuModuleGetFunction(void** kernel, void* module, const char* name) {
  return kernel_of(kernel, module, name);
}
SGLAB_CUDA_API Status cuModuleGetGlobal_v2(DevicePointer* address, std::size_t* bytes, void* module,
                                           const char* name) {
  return variable_of(address, bytes, module, name);
}
SGLAB_CUDA_API Status cuModuleGetLoadingMode(int* mode) {
  *mode = 2;  // lazy: a kernel is decoded when it is asked for
  return kSuccess;
}
SGLAB_CUDA_API Status cuLibraryLoadData(void** library, const void* image, void*, void**, unsigned, void*,
                                        void**, unsigned) {
  return load(library, image, "cuLibraryLoadData");
}
SGLAB_CUDA_API Status cuLibraryLoadFromFile(void** library, const char* path, void*, void**, unsigned, void*,
                                            void**, unsigned) {
  return load_file(library, path, "cuLibraryLoadFromFile");
}
SGLAB_CUDA_API Status cuLibraryUnload(void* library) {
  return unload(library);
}
SGLAB_CUDA_API Status cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  return kernel_of(kernel, library, name);
}
SGLAB_CUDA_API Status cuLibraryGetModule(void** module, void* library) {
  *module = library;
  return kSuccess;
}
SGLAB_CUDA_API Status cuLibraryGetGlobal(DevicePointer* address, std::size_t* bytes, void* library,
                                         const char* name) {
  return variable_of(address, bytes, library, name);
}
SGLAB_CUDA_API Status cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return kSuccess;
}
SGLAB_CUDA_API Status cuFuncGetName(const char** name, void* kernel) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const auto found = state.functions.find(kernel);
  if (found == state.functions.end()) return fail(kInvalidResourceHandle, "this is no kernel");
  *name = found->second.name.c_str();
  return kSuccess;
}
SGLAB_CUDA_API Status cuFuncGetParamInfo(void* kernel, std::size_t index, std::size_t* offset,
                                         std::size_t* bytes) {
  return parameter_info(kernel, index, offset, bytes);
}
SGLAB_CUDA_API Status cuKernelGetParamInfo(void* kernel, std::size_t index, std::size_t* offset,
                                           std::size_t* bytes) {
  return parameter_info(kernel, index, offset, bytes);
}
SGLAB_CUDA_API Status cuFuncSetAttribute(void* kernel, int attribute, int value) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}
SGLAB_CUDA_API Status cuKernelSetAttribute(int attribute, int value, void* kernel, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}
SGLAB_CUDA_API Status cuFuncGetAttribute(int* value, int attribute, void* kernel) {
  return attribute_of(value, attribute, kernel);
}
SGLAB_CUDA_API Status cuKernelGetAttribute(int* value, int attribute, void* kernel, int) {
  return attribute_of(value, attribute, kernel);
}
SGLAB_CUDA_API Status cuFuncSetCacheConfig(void*, int) {
  return kSuccess;
}
SGLAB_CUDA_API Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* kernel, int threads,
                                                                  std::size_t smem) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, smem, 0);
}
SGLAB_CUDA_API Status cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* kernel,
                                                                           int threads, std::size_t smem,
                                                                           unsigned flags) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, smem, flags);
}

SGLAB_CUDA_API Status cuLaunchKernel(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned smem, Stream stream, void** arguments,
                                     void** extra) {
  return launch_with({{gx, gy, gz}, {bx, by, bz}, smem, stream, nullptr, 0}, kernel, arguments, extra,
                     "cuLaunchKernel");
}
SGLAB_CUDA_API Status cuLaunchCooperativeKernel(void* kernel, unsigned gx, unsigned gy, unsigned gz,
                                                unsigned bx, unsigned by, unsigned bz, unsigned smem,
                                                Stream stream, void** arguments) {
  LaunchAttribute together{kAttributeCooperative, 0, {}};
  together.cooperative = 1;
  return launch_with({{gx, gy, gz}, {bx, by, bz}, smem, stream, &together, 1}, kernel, arguments, nullptr,
                     "cuLaunchCooperativeKernel");
}
SGLAB_CUDA_API Status cuLaunchKernelEx(const DriverConfig* config, void* kernel, void** arguments,
                                       void** extra) {
  return launch_with({config->grid, config->block, config->smem, config->stream, config->attributes,
                      config->attribute_count},
                     kernel, arguments, extra, "cuLaunchKernelEx");
}
