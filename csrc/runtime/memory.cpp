#include "runtime/memory.hpp"

#include <cstdlib>

namespace sglab::runtime {
namespace {

constexpr std::size_t kAlignment = 512;

void* aligned(std::size_t bytes) {
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

Status allocate(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return kSuccess;
  void* const memory = aligned(bytes);
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
  if (state.graph_memory.contains(reinterpret_cast<std::uint64_t>(pointer))) return kSuccess;
  if (state.keeps_freed) {
    state.kept.push_back(pointer);
  } else {
    std::free(pointer);
  }
  return kSuccess;
}

std::shared_ptr<void> graph_memory(std::size_t bytes) {
  void* const memory = aligned(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) return nullptr;
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  state.graph_memory.insert(reinterpret_cast<std::uint64_t>(memory));
  return {memory, [](void* one) {
            State& all = State::get();
            const std::lock_guard guard(all.mutex);
            all.graph_memory.erase(reinterpret_cast<std::uint64_t>(one));
            all.allocations.erase(reinterpret_cast<std::uint64_t>(one));
            std::free(one);
          }};
}

Status lend(std::uint64_t address, std::size_t bytes) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  if (!state.allocations.emplace(address, bytes).second)
    return fail(kInvalidValue, "a graph's memory is allocated again before it was freed");
  return kSuccess;
}

}  // namespace sglab::runtime
