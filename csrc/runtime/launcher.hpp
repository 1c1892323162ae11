// Between the CUDA runtime's interface and what executes kernels. Plain C, so that Python can be the
// launcher.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// The device that host programs see.
struct SglabDevice {
  const char* name;
  std::int32_t major, minor;
  std::int32_t sms;
  std::int32_t smem_per_block;  // bytes, with the opt-in
  std::int32_t smem_per_sm;     // bytes
  std::int32_t max_cluster;     // CTAs; 1 where clusters do not exist
  std::int32_t threads_per_sm, ctas_per_sm;
};

// Memory from cudaMalloc.
struct SglabAllocation {
  std::uint64_t address;
  std::uint64_t bytes;
};

// One launch. `arguments` is what cudaLaunchKernel gets: a pointer to each parameter's value.
struct SglabLaunch {
  const char* ptx;
  std::uint64_t ptx_bytes;
  const char* kernel;
  std::uint32_t grid[3], block[3], cluster[3];
  std::uint64_t smem;
  void* const* arguments;
  const SglabAllocation* allocations;
  std::uint64_t allocation_count;
  std::uint64_t heap_bytes;  // what cudaLimitMallocHeapSize was set to; 0: nothing
};

// Runs a launch to its end. Returns null, or what went wrong; the text must live until the next call.
using SglabLauncher = const char* (*)(const SglabLaunch*, void* user);

// Where a variable of a module lies in memory, and its size; null: the module has none of that name.
using SglabFinder = void* (*)(const char* ptx, std::uint64_t ptx_bytes, const char* variable,
                              std::uint64_t* bytes);
}
