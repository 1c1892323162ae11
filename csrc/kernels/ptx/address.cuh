// Addresses in shared memory, and this CTA's place in its cluster.
//
// The headers of this folder wrap PTX instructions: a function per instruction, named as the instruction is;
// a header per group, the ISA's section and its link beside each. The section numbers change with the ISA's
// version, the links do not.
#pragma once

#include <cstdint>

namespace ptx {

// A generic pointer into shared memory as the 32-bit address that instructions take.
__device__ inline uint32_t smem_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Data Movement and Conversion Instructions: mapa
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-mapa
//
// The same place in the shared memory of another CTA of the cluster.
__device__ inline uint32_t mapa(const void* pointer, uint32_t cta) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(smem_address(pointer)), "r"(cta));
  return address;
}

// Special Registers: %cluster_ctarank, %cluster_nctarank
// https://docs.nvidia.com/cuda/parallel-thread-execution/#special-registers-cluster-ctarank
__device__ inline uint32_t cluster_ctarank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline uint32_t cluster_nctarank() {
  uint32_t ranks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(ranks));
  return ranks;
}

}  // namespace ptx
