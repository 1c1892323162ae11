// Memory of the driver.
#include <iterator>

#include "runtime/driver.hpp"
#include "runtime/memory.hpp"

using namespace sglab::runtime;

namespace {

void* at(DevicePointer address) {
  return reinterpret_cast<void*>(address);
}

Status make(DevicePointer* address, std::size_t bytes, const char* call) {
  *address = 0;
  if (bytes == 0) return fail(kInvalidValue, std::string(call) + ": 0 bytes");
  if (const Status status = needs_context(call); status != kSuccess) return status;
  void* pointer = nullptr;
  const Status status = cudaMalloc(&pointer, bytes);
  *address = reinterpret_cast<DevicePointer>(pointer);
  return status;
}

Status fill(DevicePointer target, std::size_t pitch, std::uint32_t value, std::uint32_t element_bytes,
            std::size_t width, std::size_t height, Stream stream) {
  return submit(stream, FillWork{target, pitch, value, element_bytes, width, height});
}

// CUDA_MEMCPY2D; the kinds of memory are 1 host, 2 device, 3 array, 4 either.
struct Side2d {
  std::size_t x, y;
  int kind;
  std::uint64_t host, device;
  void* array;
  std::size_t pitch;
};
struct Copy2d {
  Side2d source, target;
  std::size_t width, height;
};
static_assert(sizeof(Copy2d) == 128);

Status copy(const Copy2d* said, Stream stream) {
  const auto side = [](const Side2d& one) {
    return (one.kind == 1 ? one.host : one.device) + one.y * one.pitch + one.x;
  };
  if (said->source.kind == 3 || said->target.kind == 3)
    return fail(kNotSupported, "copies from and to arrays for textures are not supported");
  return cudaMemcpy2DAsync(at(side(said->target)), said->target.pitch, at(side(said->source)),
                           said->source.pitch, said->width, said->height, 4, stream);
}

// The allocation that holds `address`; null, with an error recorded, if none does.
const std::pair<const std::uint64_t, std::uint64_t>* holding(DevicePointer address) {
  State& state = State::get();
  const auto next = state.allocations.upper_bound(address);
  if (next != state.allocations.begin() && address < std::prev(next)->first + std::prev(next)->second)
    return &*std::prev(next);
  fail(kInvalidValue, "no memory of the device lies at this address");
  return nullptr;
}

// CUpointer_attribute
enum : int {
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kIsManaged = 8,
  kOrdinal = 9,
  kStart = 11,
  kSize = 12
};

template <typename T>
void put(void* target, T value) {
  *static_cast<T*>(target) = value;
}

}  // namespace

SGLAB_CUDA_API Status cuMemAlloc_v2(DevicePointer* address, std::size_t bytes) {
  return make(address, bytes, "cuMemAlloc");
}
SGLAB_CUDA_API Status cuMemAllocManaged(DevicePointer* address, std::size_t bytes, unsigned) {
  return make(address, bytes, "cuMemAllocManaged");
}
SGLAB_CUDA_API Status cuMemAllocHost_v2(void** pointer, std::size_t bytes) {
  return make(reinterpret_cast<DevicePointer*>(pointer), bytes, "cuMemAllocHost");
}
SGLAB_CUDA_API Status cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return make(reinterpret_cast<DevicePointer*>(pointer), bytes, "cuMemHostAlloc");
}
SGLAB_CUDA_API Status cuMemAllocPitch_v2(DevicePointer* address, std::size_t* pitch, std::size_t width,
                                         std::size_t height, unsigned) {
  return cudaMallocPitch(reinterpret_cast<void**>(address), pitch, width, height);
}
SGLAB_CUDA_API Status cuMemAllocAsync(DevicePointer* address, std::size_t bytes, Stream stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(address), bytes, stream);
}
SGLAB_CUDA_API Status cuMemFree_v2(DevicePointer address) {
  return cudaFree(at(address));
}
SGLAB_CUDA_API Status cuMemFreeHost(void* pointer) {
  return cudaFree(pointer);
}
SGLAB_CUDA_API Status cuMemFreeAsync(DevicePointer address, Stream stream) {
  return cudaFreeAsync(at(address), stream);
}
SGLAB_CUDA_API Status cuMemHostGetDevicePointer_v2(DevicePointer* address, void* pointer, unsigned) {
  *address = reinterpret_cast<DevicePointer>(pointer);
  return kSuccess;
}
SGLAB_CUDA_API Status cuMemHostRegister_v2(void*, std::size_t, unsigned) {
  return kSuccess;
}
SGLAB_CUDA_API Status cuMemHostUnregister(void*) {
  return kSuccess;
}
SGLAB_CUDA_API Status cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  return cudaMemGetInfo(free_bytes, total);
}
SGLAB_CUDA_API Status cuMemGetAddressRange_v2(DevicePointer* base, std::size_t* bytes,
                                              DevicePointer address) {
  const std::lock_guard lock(State::get().mutex);
  const auto* const found = holding(address);
  if (found == nullptr) return last_status(false);
  if (base != nullptr) *base = found->first;
  if (bytes != nullptr) *bytes = found->second;
  return kSuccess;
}
SGLAB_CUDA_API Status cuPointerGetAttribute(void* value, int attribute, DevicePointer address) {
  const std::lock_guard lock(State::get().mutex);
  const auto* const found = holding(address);
  if (found == nullptr) return last_status(false);
  switch (attribute) {
    case kMemoryType:
      return put(value, 2u), kSuccess;
    case kDevicePointer:
    case kHostPointer:
      return put(value, address), kSuccess;
    case kIsManaged:
      return put(value, 0u), kSuccess;
    case kOrdinal:
      return put(value, 0), kSuccess;
    case kStart:
      return put(value, found->first), kSuccess;
    case kSize:
      return put(value, found->second), kSuccess;
    default:
      return fail(kNotSupported, "pointer attribute " + std::to_string(attribute) + " is not provided");
  }
}

SGLAB_CUDA_API Status cuMemcpy(DevicePointer target, DevicePointer source, std::size_t bytes) {
  return submit(nullptr, copy_of(at(target), at(source), bytes));
}
SGLAB_CUDA_API Status cuMemcpyAsync(DevicePointer target, DevicePointer source, std::size_t bytes,
                                    Stream stream) {
  return submit(stream, copy_of(at(target), at(source), bytes));
}
SGLAB_CUDA_API Status cuMemcpyHtoD_v2(DevicePointer target, const void* source, std::size_t bytes) {
  return submit(nullptr, copy_of(at(target), source, bytes));
}
SGLAB_CUDA_API Status cuMemcpyDtoH_v2(void* target, DevicePointer source, std::size_t bytes) {
  return submit(nullptr, copy_of(target, at(source), bytes));
}
SGLAB_CUDA_API Status cuMemcpyDtoD_v2(DevicePointer target, DevicePointer source, std::size_t bytes) {
  return submit(nullptr, copy_of(at(target), at(source), bytes));
}
SGLAB_CUDA_API Status cuMemcpyHtoDAsync_v2(DevicePointer target, const void* source, std::size_t bytes,
                                           Stream stream) {
  return submit(stream, copy_of(at(target), source, bytes));
}
SGLAB_CUDA_API Status cuMemcpyDtoHAsync_v2(void* target, DevicePointer source, std::size_t bytes,
                                           Stream stream) {
  return submit(stream, copy_of(target, at(source), bytes));
}
SGLAB_CUDA_API Status cuMemcpyDtoDAsync_v2(DevicePointer target, DevicePointer source, std::size_t bytes,
                                           Stream stream) {
  return submit(stream, copy_of(at(target), at(source), bytes));
}
SGLAB_CUDA_API Status cuMemcpy2D_v2(const Copy2d* said) {
  return copy(said, nullptr);
}
SGLAB_CUDA_API Status cuMemcpy2DUnaligned_v2(const Copy2d* said) {
  return copy(said, nullptr);
}
SGLAB_CUDA_API Status cuMemcpy2DAsync_v2(const Copy2d* said, Stream stream) {
  return copy(said, stream);
}
SGLAB_CUDA_API Status cuMemsetD8_v2(DevicePointer target, unsigned char value, std::size_t count) {
  return fill(target, 0, value, 1, count, 1, nullptr);
}
SGLAB_CUDA_API Status cuMemsetD16_v2(DevicePointer target, unsigned short value, std::size_t count) {
  return fill(target, 0, value, 2, count, 1, nullptr);
}
SGLAB_CUDA_API Status cuMemsetD32_v2(DevicePointer target, unsigned value, std::size_t count) {
  return fill(target, 0, value, 4, count, 1, nullptr);
}
SGLAB_CUDA_API Status cuMemsetD8Async(DevicePointer target, unsigned char value, std::size_t count,
                                      Stream stream) {
  return fill(target, 0, value, 1, count, 1, stream);
}
SGLAB_CUDA_API Status cuMemsetD16Async(DevicePointer target, unsigned short value, std::size_t count,
                                       Stream stream) {
  return fill(target, 0, value, 2, count, 1, stream);
}
SGLAB_CUDA_API Status cuMemsetD32Async(DevicePointer target, unsigned value, std::size_t count,
                                       Stream stream) {
  return fill(target, 0, value, 4, count, 1, stream);
}
SGLAB_CUDA_API Status cuMemsetD2D8_v2(DevicePointer target, std::size_t pitch, unsigned char value,
                                      std::size_t width, std::size_t height) {
  return fill(target, pitch, value, 1, width, height, nullptr);
}
SGLAB_CUDA_API Status cuMemsetD2D32_v2(DevicePointer target, std::size_t pitch, unsigned value,
                                       std::size_t width, std::size_t height) {
  return fill(target, pitch, value, 4, width, height, nullptr);
}
