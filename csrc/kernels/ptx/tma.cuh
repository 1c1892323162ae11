// TMA: copies between global and shared memory of boxes of a tensor that a tensor map describes.
//
// Data Movement and Conversion Instructions: cp.async.bulk.tensor
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk-tensor
#pragma once

#include <cuda.h>

#include <cstdint>

#include "address.cuh"
#include "barrier.cuh"

namespace ptx {

// L2 policies, as createpolicy.fractional encodes them.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-createpolicy
constexpr uint64_t kEvictFirst = 0x12F0000000000000;
constexpr uint64_t kEvictNormal = 0x1000000000000000;

// ---- loads: the bytes that arrive count at the barrier ----

__device__ inline void tma_load_2d(const void* smem, const CUtensorMap* tensor_map, int x, int y,
                                   Mbarrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(smem_address(smem)),
      "l"(tensor_map), "r"(x), "r"(y), "r"(barrier.address)
      : "memory");
}

// To the same place in every CTA of the cluster whose bit is set in `ctas`, and to its barrier there.
__device__ inline void tma_load_2d_multicast(const void* smem, const CUtensorMap* tensor_map, int x, int y,
                                             Mbarrier barrier, uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(smem_address(smem)),
      "l"(tensor_map), "r"(x), "r"(y), "r"(barrier.address), "h"(ctas)
      : "memory");
}

__device__ inline void tma_load_3d(const void* smem, const CUtensorMap* tensor_map, int x, int y, int z,
                                   Mbarrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(smem_address(smem)),
      "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier.address)
      : "memory");
}

__device__ inline void tma_load_3d(uint32_t smem, const CUtensorMap* tensor_map, int x, int y, int z,
                                   Mbarrier barrier, uint64_t l2_policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(smem),
      "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier.address), "l"(l2_policy)
      : "memory");
}

__device__ inline void tma_load_3d(const void* smem, const CUtensorMap* tensor_map, int x, int y, int z,
                                   Mbarrier barrier, uint64_t l2_policy) {
  tma_load_3d(smem_address(smem), tensor_map, x, y, z, barrier, l2_policy);
}

// To this CTA's shared memory; the barrier, by its mapa address, may be the other CTA's of the pair.
__device__ inline void tma_load_3d_pair(const void* smem, const CUtensorMap* tensor_map, int x, int y, int z,
                                        uint32_t barrier, uint64_t l2_policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(smem_address(smem)),
      "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(l2_policy)
      : "memory");
}

// ---- stores: waited for by groups ----

__device__ inline void tma_store_2d(const CUtensorMap* tensor_map, const void* smem, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(tensor_map),
      "r"(smem_address(smem)), "r"(x), "r"(y)
      : "memory");
}

// Data Movement and Conversion Instructions: cp.reduce.async.bulk.tensor
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-reduce-async-bulk-tensor
__device__ inline void tma_reduce_add_2d(const CUtensorMap* tensor_map, const void* smem, int x, int y) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                   tensor_map),
               "r"(smem_address(smem)), "r"(x), "r"(y)
               : "memory");
}

// Data Movement and Conversion Instructions: cp.async.bulk.commit_group, cp.async.bulk.wait_group
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk-commit-group
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk-wait-group
__device__ inline void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All of this thread's groups are complete …
__device__ inline void bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// … or at least their sources have been read.
__device__ inline void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Data Movement and Conversion Instructions: prefetch, prefetchu
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-prefetch-prefetchu
__device__ inline void prefetch_tensor_map(const CUtensorMap* tensor_map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(tensor_map) : "memory");
}

}  // namespace ptx
