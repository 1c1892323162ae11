// The driver's interface (libcuda.so.1), on what the runtime's is built on. Statuses have the same numbers.
#pragma once

#include "runtime/api.hpp"
#include "runtime/state.hpp"

namespace sglab::runtime {

using DevicePointer = std::uint64_t;

// kSuccess if this thread has a context, as every call needs that touches memory, modules or kernels.
// Programs that the runtime serves too have its primary context.
Status needs_context(const char* call);

// The newest version of a driver function that this library has; null: none.
void* driver_function(const char* name);

}  // namespace sglab::runtime
