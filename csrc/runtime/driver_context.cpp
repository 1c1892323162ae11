// Devices, contexts and errors of the driver. There is one GPU; contexts share all that it holds.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/driver.hpp"
#include "runtime/errors.hpp"

using namespace sglab::runtime;

namespace {

using Context = void*;

struct Contexts {
  bool initialized = false;
  int primary_users = 0;
  char primary;  // its address is the primary context
};
Contexts contexts;
thread_local std::vector<Context> current;  // a stack

Status initialized(const char* call) {
  return contexts.initialized ? kSuccess : fail(kNotInitialized, std::string(call) + " before cuInit");
}

Status only_device(int device) {
  return device == 0 ? kSuccess : fail(kInvalidDevice, "there is one emulated GPU, number 0");
}

void make_current(Context context) {
  if (current.empty())
    current.push_back(context);
  else
    current.back() = context;
}

}  // namespace

Status sglab::runtime::needs_context(const char* call) {
  if (const Status status = initialized(call); status != kSuccess) return status;
  const bool has_one = !current.empty() && current.back() != nullptr;
  if (has_one || !State::get().modules.empty()) return kSuccess;
  return fail(kInvalidContext, std::string(call) + ": no context is current; cuCtxCreate makes one");
}

void* sglab::runtime::driver_function(const char* name) {
  static void* const library = [] {
    Dl_info here;
    return dladdr(reinterpret_cast<void*>(&driver_function), &here) == 0
               ? nullptr
               : dlopen(here.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }();
  if (library == nullptr || std::strncmp(name, "cu", 2) != 0) return nullptr;
  for (const char* const version : {"_v4", "_v3", "_v2", ""}) {
    if (void* const found = dlsym(library, (std::string(name) + version).c_str())) return found;
  }
  return nullptr;
}

SGLAB_CUDA_API Status cuInit(unsigned flags) {
  if (flags != 0) return fail(kInvalidValue, "cuInit: flags must be 0");
  contexts.initialized = true;
  return kSuccess;
}
SGLAB_CUDA_API Status cuDriverGetVersion(int* version) {
  return cudaDriverGetVersion(version);
}
SGLAB_CUDA_API Status cuGetErrorName(Status status, const char** name) {
  const ErrorWords* const words = words_for(status);
  *name = words == nullptr ? nullptr : words->driver_name;
  return *name == nullptr ? kInvalidValue : kSuccess;
}
SGLAB_CUDA_API Status cuGetErrorString(Status status, const char** text) {
  const bool known = words_for(status) != nullptr;
  *text = known ? cudaGetErrorString(status) : nullptr;
  return known ? kSuccess : kInvalidValue;
}
// cuGetProcAddress's answer of why there is none: CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND.
SGLAB_CUDA_API Status cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t,
                                          int* result) {
  *function = std::strcmp(name, "cuGetProcAddress") == 0 ? reinterpret_cast<void*>(&cuGetProcAddress_v2)
                                                         : driver_function(name);
  if (result != nullptr) *result = *function == nullptr ? 1 : 0;
  return *function == nullptr
             ? fail(kSymbolNotFound, std::string("the driver function ") + name + " is not provided")
             : kSuccess;
}

SGLAB_CUDA_API Status cuDeviceGetCount(int* count) {
  *count = 1;
  return initialized("cuDeviceGetCount");
}
SGLAB_CUDA_API Status cuDeviceGet(int* device, int ordinal) {
  *device = 0;
  const Status status = initialized("cuDeviceGet");
  return status == kSuccess ? only_device(ordinal) : status;
}
SGLAB_CUDA_API Status cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<std::size_t>(std::max(bytes, 0)), "%s", State::get().device_name.c_str());
  return only_device(device);
}
SGLAB_CUDA_API Status cuDeviceGetUuid_v2(char* uuid, int device) {
  std::memcpy(uuid, "sglab emulated!", 16);
  return only_device(device);
}
SGLAB_CUDA_API Status cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  std::size_t free_bytes = 0;
  const Status status = only_device(device);
  return status == kSuccess ? cudaMemGetInfo(&free_bytes, bytes) : status;
}
SGLAB_CUDA_API Status cuDeviceGetAttribute(int* value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, attribute, device);
}
SGLAB_CUDA_API Status cuDeviceComputeCapability(int* major, int* minor, int device) {
  *major = State::get().device.major;
  *minor = State::get().device.minor;
  return only_device(device);
}
SGLAB_CUDA_API Status cuDeviceGetPCIBusId(char* id, int bytes, int device) {
  return cudaDeviceGetPCIBusId(id, bytes, device);
}
SGLAB_CUDA_API Status cuDeviceGetDefaultMemPool(void** pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}
SGLAB_CUDA_API Status cuDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return kSuccess;
}

SGLAB_CUDA_API Status cuDevicePrimaryCtxRetain(Context* context, int device) {
  if (const Status status = initialized("cuDevicePrimaryCtxRetain"); status != kSuccess) return status;
  ++contexts.primary_users;
  *context = &contexts.primary;
  return only_device(device);
}
SGLAB_CUDA_API Status cuDevicePrimaryCtxRelease_v2(int device) {
  if (contexts.primary_users == 0) return fail(kInvalidContext, "the primary context was never retained");
  --contexts.primary_users;
  return only_device(device);
}
SGLAB_CUDA_API Status cuDevicePrimaryCtxReset_v2(int device) {
  return only_device(device);
}
SGLAB_CUDA_API Status cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
  return only_device(device);
}
SGLAB_CUDA_API Status cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = contexts.primary_users > 0;
  return only_device(device);
}

namespace {

Status create(Context* context, int device) {
  if (const Status status = initialized("cuCtxCreate"); status != kSuccess) return status;
  if (const Status status = only_device(device); status != kSuccess) return status;
  *context = new char;
  current.push_back(*context);
  return kSuccess;
}

}  // namespace

SGLAB_CUDA_API Status cuCtxCreate_v2(Context* context, unsigned, int device) {
  return create(context, device);
}
SGLAB_CUDA_API Status cuCtxCreate_v4(Context* context, const void*, unsigned, int device) {
  return create(context, device);
}
SGLAB_CUDA_API Status cuCtxDestroy_v2(Context context) {
  if (context == nullptr || context == &contexts.primary)
    return fail(kInvalidContext, "cuCtxDestroy: not from cuCtxCreate");
  std::erase(current, context);
  delete static_cast<char*>(context);
  return kSuccess;
}
SGLAB_CUDA_API Status cuCtxSetCurrent(Context context) {
  make_current(context);
  return kSuccess;
}
SGLAB_CUDA_API Status cuCtxGetCurrent(Context* context) {
  *context = current.empty() ? nullptr : current.back();
  return kSuccess;
}
SGLAB_CUDA_API Status cuCtxPushCurrent_v2(Context context) {
  current.push_back(context);
  return kSuccess;
}
SGLAB_CUDA_API Status cuCtxPopCurrent_v2(Context* context) {
  if (current.empty()) return fail(kInvalidContext, "cuCtxPopCurrent: no context is current");
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return kSuccess;
}
SGLAB_CUDA_API Status cuCtxGetDevice(int* device) {
  *device = 0;
  return needs_context("cuCtxGetDevice");
}
SGLAB_CUDA_API Status cuCtxGetFlags(unsigned* flags) {
  *flags = 0;
  return needs_context("cuCtxGetFlags");
}
SGLAB_CUDA_API Status cuCtxGetApiVersion(Context, unsigned* version) {
  *version = 4;
  return kSuccess;
}
SGLAB_CUDA_API Status cuCtxSynchronize() {
  const Status status = needs_context("cuCtxSynchronize");
  return status == kSuccess ? cudaDeviceSynchronize() : status;
}
SGLAB_CUDA_API Status cuCtxSetLimit(int limit, std::size_t value) {
  return cudaDeviceSetLimit(limit, value);
}
SGLAB_CUDA_API Status cuCtxGetLimit(std::size_t* value, int limit) {
  return cudaDeviceGetLimit(value, limit);
}
SGLAB_CUDA_API Status cuCtxSetCacheConfig(int) {
  return kSuccess;
}
SGLAB_CUDA_API Status cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return cudaDeviceGetStreamPriorityRange(least, greatest);
}
