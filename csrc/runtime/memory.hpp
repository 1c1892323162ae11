// Device memory, which is the host's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/state.hpp"

namespace sglab::runtime {

Status allocate(void** pointer, std::size_t bytes);
Status release(void* pointer);

// Memory that belongs to graphs and is lent to kernels from an allocation node to a free node.
std::shared_ptr<void> graph_memory(std::size_t bytes);
Status lend(std::uint64_t address, std::size_t bytes);

}  // namespace sglab::runtime
