// Data Movement and Conversion Instructions: stmatrix
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-stmatrix
#pragma once

#include <cstdint>

namespace ptx {

// Stores a warp's 16×16 block of 16-bit elements, held as wgmma fragments. Lane i addresses row i % 16,
// 8-column half i / 16.
__device__ inline void stmatrix_16x16(uint32_t address, const uint32_t* fragment) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
               : "memory");
}

}  // namespace ptx
