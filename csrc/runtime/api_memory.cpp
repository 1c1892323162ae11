// Memory: the device's is the host's, so that addresses mean the same on both sides.
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/state.hpp"

using namespace sglab::runtime;

namespace {

constexpr std::size_t kAlignment = 512;

Status allocate(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return kSuccess;
  void* const memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) return fail(kMemoryAllocation, "out of memory: " + std::to_string(bytes) + " bytes");
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.allocations[reinterpret_cast<std::uint64_t>(memory)] = bytes;
  *pointer = memory;
  return kSuccess;
}

Status release(void* pointer) {
  if (pointer == nullptr) return kSuccess;
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  if (state.allocations.erase(reinterpret_cast<std::uint64_t>(pointer)) == 0) {
    return fail(kInvalidValue, "this pointer did not come from cudaMalloc, or was freed before");
  }
  if (state.keeps_freed) {
    state.kept.push_back(pointer);
  } else {
    std::free(pointer);
  }
  return kSuccess;
}

Status copy(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0) std::memmove(target, source, bytes);
  return kSuccess;
}

Status copy_rows(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                 std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    std::memmove(static_cast<char*>(target) + row * target_pitch,
                 static_cast<const char*>(source) + row * source_pitch, width);
  }
  return kSuccess;
}

}  // namespace

SGLAB_CUDA_API Status cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate(pointer, bytes);
}
SGLAB_CUDA_API Status cudaMallocAsync(void** pointer, std::size_t bytes, Stream) {
  return allocate(pointer, bytes);
}
SGLAB_CUDA_API Status cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  return allocate(pointer, bytes);
}
SGLAB_CUDA_API Status cudaMallocHost(void** pointer, std::size_t bytes) {
  return allocate(pointer, bytes);
}
SGLAB_CUDA_API Status cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return allocate(pointer, bytes);
}
SGLAB_CUDA_API Status cudaFree(void* pointer) {
  return release(pointer);
}
SGLAB_CUDA_API Status cudaFreeAsync(void* pointer, Stream) {
  return release(pointer);
}
SGLAB_CUDA_API Status cudaFreeHost(void* pointer) {
  return release(pointer);
}

SGLAB_CUDA_API Status cudaMemcpy(void* target, const void* source, std::size_t bytes, int) {
  return copy(target, source, bytes);
}
SGLAB_CUDA_API Status cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, int, Stream) {
  return copy(target, source, bytes);
}
SGLAB_CUDA_API Status cudaMemcpy2D(void* target, std::size_t target_pitch, const void* source,
                                   std::size_t source_pitch, std::size_t width, std::size_t height, int) {
  return copy_rows(target, target_pitch, source, source_pitch, width, height);
}
SGLAB_CUDA_API Status cudaMemcpy2DAsync(void* target, std::size_t target_pitch, const void* source,
                                        std::size_t source_pitch, std::size_t width, std::size_t height, int,
                                        Stream) {
  return copy_rows(target, target_pitch, source, source_pitch, width, height);
}
SGLAB_CUDA_API Status cudaMemset(void* target, int value, std::size_t bytes) {
  if (bytes > 0) std::memset(target, value, bytes);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaMemsetAsync(void* target, int value, std::size_t bytes, Stream) {
  return cudaMemset(target, value, bytes);
}

SGLAB_CUDA_API Status cudaMemset2D(void* target, std::size_t pitch, int value, std::size_t width,
                                   std::size_t height) {
  for (std::size_t row = 0; row < height; ++row)
    std::memset(static_cast<char*>(target) + row * pitch, value, width);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                                      std::size_t height) {
  *pitch = (width + kAlignment - 1) / kAlignment * kAlignment;
  return allocate(pointer, *pitch * height);
}
SGLAB_CUDA_API Status cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, void*, Stream) {
  return allocate(pointer, bytes);
}

SGLAB_CUDA_API Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  auto next = state.allocations.upper_bound(address);
  const bool ours =
      next != state.allocations.begin() && address < std::prev(next)->first + std::prev(next)->second;
  *attributes = {};
  attributes->type = ours ? 2 : 0;
  attributes->device_pointer = attributes->host_pointer = const_cast<void*>(pointer);
  return kSuccess;
}

SGLAB_CUDA_API Status cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  constexpr std::size_t kTotal = std::size_t{16} << 30;
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  std::size_t used = 0;
  for (const auto& [address, bytes] : state.allocations) used += bytes;
  *total = kTotal;
  *free_bytes = used < kTotal ? kTotal - used : 0;
  return kSuccess;
}
