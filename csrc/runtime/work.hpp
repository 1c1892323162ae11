// What streams and the nodes of graphs do. Here everything is over when `perform` returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/abi.hpp"

namespace sglab::runtime {

class Graph;

struct NoWork {};

// A launch that keeps a copy of its arguments, as a captured one must.
struct KernelWork {
  const void* stub = nullptr;
  Dim3 grid, block, cluster;
  std::size_t smem = 0;
  std::vector<std::vector<std::byte>> arguments;
};

// `depth` slices of `height` rows of `width` bytes each.
struct CopyWork {
  struct Side {
    std::uint64_t address = 0;
    std::size_t pitch = 0, slice = 0;  // bytes from row to row and from slice to slice
  };
  Side target, source;
  std::size_t width = 0, height = 1, depth = 1;
};

// `height` rows of `width` elements.
struct FillWork {
  std::uint64_t target = 0;
  std::size_t pitch = 0;
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1;  // 1, 2 or 4
  std::size_t width = 0, height = 1;
};

struct HostWork {
  void (*function)(void*) = nullptr;
  void* data = nullptr;
};

struct RecordWork {
  Event event = nullptr;
};
struct WaitWork {
  Event event = nullptr;
};

// Memory with an address that is the same in every launch of a graph; it may be touched from this node to
// the FreeWork of that address.
struct AllocationWork {
  std::shared_ptr<void> memory;
  std::size_t bytes = 0;
};
struct FreeWork {
  std::uint64_t address = 0;
};

struct GraphWork {
  std::shared_ptr<Graph> graph;
};

using Work = std::variant<NoWork, KernelWork, CopyWork, FillWork, HostWork, RecordWork, WaitWork,
                          AllocationWork, FreeWork, GraphWork>;

Status perform(const Work& work);

// A launch as work: its arguments are copied, by the sizes that the kernel's PTX says. `buffer`: one block of
// packed arguments in place of a pointer to each; may be null.
Status make_kernel_work(const void* stub, Dim3 grid, Dim3 block, Dim3 cluster, std::size_t smem,
                        void* const* arguments, const void* buffer, KernelWork& work);

CopyWork copy_of(void* target, const void* source, std::size_t bytes);

}  // namespace sglab::runtime
