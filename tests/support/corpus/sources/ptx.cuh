// Thin names for the PTX instructions the corpus uses.
#pragma once
#include <cuda.h>

#include <cstdint>

#define DEV __device__ __forceinline__
DEV uint32_t smem(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
DEV uint32_t cluster_rank() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
DEV uint32_t cluster_size() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
  return r;
}
DEV uint32_t mapa(uint32_t address, uint32_t rank) {
  uint32_t r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
  return r;
}
DEV void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
DEV bool elect() {
  uint32_t p;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(p));
  return p;
}
DEV void mbar_init(uint64_t* b, uint32_t n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(b)), "r"(n) : "memory");
}
DEV void fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEV void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
DEV void mbar_expect(uint64_t* b, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(b)), "r"(bytes)
               : "memory");
}
DEV void mbar_arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(b)) : "memory");
}
DEV void mbar_arrive_cluster(uint32_t address) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}
DEV void mbar_wait(uint64_t* b, uint32_t parity) {
  asm volatile(
      "{ .reg .pred p;\nL_wait: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra L_wait; }" ::
          "r"(smem(b)),
      "r"(parity)
      : "memory");
}
DEV void tma_load_2d(void* dst, const CUtensorMap* map, int x, int y, uint64_t* b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(smem(dst)),
      "l"(map), "r"(smem(b)), "r"(x), "r"(y)
      : "memory");
}
DEV void tma_load_2d_multicast(void* dst, const CUtensorMap* map, int x, int y, uint64_t* b, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4}], [%2], %5;" ::"r"(smem(dst)),
      "l"(map), "r"(smem(b)), "r"(x), "r"(y), "h"(mask)
      : "memory");
}
DEV void tma_load_3d(void* dst, const CUtensorMap* map, int x, int y, int z, uint64_t* b) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(smem(dst)),
      "l"(map), "r"(smem(b)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
DEV void tma_store_2d(const CUtensorMap* map, const void* src, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(smem(src)), "r"(x), "r"(y)
               : "memory");
}
DEV void tma_reduce_add_2d(const CUtensorMap* map, const void* src, int x, int y) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
      "r"(smem(src)), "r"(x), "r"(y)
      : "memory");
}
DEV void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
DEV void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
DEV void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
