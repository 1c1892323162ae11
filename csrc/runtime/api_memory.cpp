// Memory: the device's is the host's, so that addresses mean the same on both sides.
#include <iterator>

#include "runtime/memory.hpp"
#include "runtime/node_parameters.hpp"
#include "runtime/streams.hpp"

using namespace sglab::runtime;

namespace {

constexpr std::size_t kPitch = 512;

Status allocate_now(void** pointer, std::size_t bytes, const char* call) {
  const Status status = allowed_in_captures(call);
  return status == kSuccess ? allocate(pointer, bytes) : status;
}

// In a captured stream the memory is the graph's, and its address holds from now on.
Status allocate_in(Stream stream, void** pointer, std::size_t bytes) {
  CaptureView view;
  if (const Status status = view_capture(stream, view); status != kSuccess) return status;
  if (view.status == CaptureStatus::kNone) return allocate(pointer, bytes);
  auto memory = graph_memory(bytes);
  if (memory == nullptr) return fail(kMemoryAllocation, "out of memory: " + std::to_string(bytes) + " bytes");
  *pointer = memory.get();
  return submit(stream, AllocationWork{std::move(memory), bytes});
}

CopyWork rows(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
              std::size_t width, std::size_t height) {
  CopyWork copy = copy_of(target, source, width);
  copy.target.pitch = target_pitch;
  copy.source.pitch = source_pitch;
  copy.height = height;
  return copy;
}

FillWork bytes_of(void* target, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return {reinterpret_cast<std::uint64_t>(target),
          pitch,
          static_cast<std::uint32_t>(value) & 0xff,
          1,
          width,
          height};
}

Status copy_box(const CopyParameters* said, Stream stream) {
  CopyWork work;
  const Status status = work_from(*said, work);
  return status == kSuccess ? submit(stream, work) : status;
}

}  // namespace

SGLAB_CUDA_API Status cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate_now(pointer, bytes, "cudaMalloc");
}
SGLAB_CUDA_API Status cudaMallocAsync(void** pointer, std::size_t bytes, Stream stream) {
  return allocate_in(stream, pointer, bytes);
}
SGLAB_CUDA_API Status cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  return allocate_now(pointer, bytes, "cudaMallocManaged");
}
SGLAB_CUDA_API Status cudaMallocHost(void** pointer, std::size_t bytes) {
  return allocate_now(pointer, bytes, "cudaMallocHost");
}
SGLAB_CUDA_API Status cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return allocate_now(pointer, bytes, "cudaHostAlloc");
}
SGLAB_CUDA_API Status cudaFree(void* pointer) {
  return release(pointer);
}
SGLAB_CUDA_API Status cudaFreeAsync(void* pointer, Stream stream) {
  return submit(stream, FreeWork{reinterpret_cast<std::uint64_t>(pointer)});
}
SGLAB_CUDA_API Status cudaFreeHost(void* pointer) {
  return release(pointer);
}

SGLAB_CUDA_API Status cudaMemcpy(void* target, const void* source, std::size_t bytes, int) {
  return submit(nullptr, copy_of(target, source, bytes));
}
SGLAB_CUDA_API Status cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, int,
                                      Stream stream) {
  return submit(stream, copy_of(target, source, bytes));
}
SGLAB_CUDA_API Status cudaMemcpy2D(void* target, std::size_t target_pitch, const void* source,
                                   std::size_t source_pitch, std::size_t width, std::size_t height, int) {
  return submit(nullptr, rows(target, target_pitch, source, source_pitch, width, height));
}
SGLAB_CUDA_API Status cudaMemcpy2DAsync(void* target, std::size_t target_pitch, const void* source,
                                        std::size_t source_pitch, std::size_t width, std::size_t height, int,
                                        Stream stream) {
  return submit(stream, rows(target, target_pitch, source, source_pitch, width, height));
}
SGLAB_CUDA_API Status cudaMemcpy3D(const CopyParameters* said) {
  return copy_box(said, nullptr);
}
SGLAB_CUDA_API Status cudaMemcpy3DAsync(const CopyParameters* said, Stream stream) {
  return copy_box(said, stream);
}
SGLAB_CUDA_API Status cudaMemset(void* target, int value, std::size_t bytes) {
  return submit(nullptr, bytes_of(target, 0, value, bytes, 1));
}
SGLAB_CUDA_API Status cudaMemsetAsync(void* target, int value, std::size_t bytes, Stream stream) {
  return submit(stream, bytes_of(target, 0, value, bytes, 1));
}
SGLAB_CUDA_API Status cudaMemset2D(void* target, std::size_t pitch, int value, std::size_t width,
                                   std::size_t height) {
  return submit(nullptr, bytes_of(target, pitch, value, width, height));
}
SGLAB_CUDA_API Status cudaMemset2DAsync(void* target, std::size_t pitch, int value, std::size_t width,
                                        std::size_t height, Stream stream) {
  return submit(stream, bytes_of(target, pitch, value, width, height));
}
SGLAB_CUDA_API Status cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                                      std::size_t height) {
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return allocate_now(pointer, *pitch * height, "cudaMallocPitch");
}
SGLAB_CUDA_API Status cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, void*, Stream stream) {
  return allocate_in(stream, pointer, bytes);
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
