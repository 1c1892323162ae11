#pragma once

#include "machine/engine/observer.hpp"
#include "observe/sanitize/detector.hpp"

namespace sglab::emu {

// What detectors hear of an asynchronous operation, and the bytes that it touches.
AsyncOp async_op(const AsyncOperation& operation);
Footprint footprint_of(const Cluster& cluster, const AsyncOperation& operation, Footprint f);

}  // namespace sglab::emu
