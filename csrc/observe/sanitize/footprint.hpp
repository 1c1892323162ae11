#pragma once

#include "machine/async/operations.hpp"
#include "observe/sanitize/observer.hpp"

namespace sglab::emu {

struct Wgmma;

// What observers are told of an asynchronous operation, and the bytes that it touches. `lanes`: of a
// SmallCopy, those that are carried out.
AsyncOp async_op(const BulkOperation& operation);
AsyncOp async_op(const TensorOperation& operation);
AsyncOp async_op(const TensorCommit& commit);
AsyncOp async_op(const SmallCopy& copy);

Footprint footprint_of(const Cluster& cluster, const BulkOperation& operation, std::uint32_t lanes);
Footprint footprint_of(const Cluster& cluster, const TensorOperation& operation, std::uint32_t lanes);
Footprint footprint_of(const Cluster& cluster, const SmallCopy& copy, std::uint32_t lanes);
Footprint footprint_of(std::uint32_t rank, const Wgmma& operation);

}  // namespace sglab::emu
