#pragma once

#include <cstdint>

namespace sglab::emu {

// D[m, n] (+)= sum over k of A[m, k] * B[n, k] in fp32. Rows run fastest: A is a packed panel, D may be
// strided.
struct MmaPanels {
  const float* a;  // A[m, k] at a[k * a_stride + m]
  std::int64_t a_stride;
  const float* b;  // B[n, k] at b[n * b_stride_n + k * b_stride_k]
  std::int64_t b_stride_n;
  std::int64_t b_stride_k;
  float* d;  // D[m, n] at d[n * d_stride + m]
  std::int64_t d_stride;
  int m;  // a multiple of 16
  int n;
  int k;
  bool accumulate;  // false: D starts at zero and its old contents are not read
};

enum class CopiesFound : std::uint8_t {
  kUneven,   // a lane reads more than nothing and less than all
  kOutside,  // something is not aligned or out of bounds
  kGood
};

// A cp.async of all 32 lanes, for place_copies().
struct CopyLanes {
  const std::uint32_t* to;  // shared memory, each lane's plus the offset
  std::uint32_t to_offset;
  std::uint32_t bytes;  // 4, 8 or 16
  const std::uint64_t* from;
  std::uint64_t from_offset;
  const std::uint32_t* sizes;               // bytes that are read; nullptr: all
  std::uint64_t window_begin, window_room;  // where a destination may lie, and the last offset from there
  std::uint64_t begin, room;                // the same of sources
};

// The loops that are compiled once per instruction set.
//
// Every element of D is one chain of fused multiply-adds in the order of k, starting from the old D: one
// rounding to nearest per step. A tensor core rounds the sum of several products at once (toward zero, with a
// few guard bits), so results agree to a few units in the last place of the largest partial sum, and exactly
// wherever every partial sum is representable. Products of two 16-bit or narrower elements are exact in fp32,
// so hosts without fused multiply-adds multiply and add, except where a bfloat16 or tf32 product leaves
// fp32's normal range. All give the same bits.
struct MmaKernels {
  void (*multiply)(const MmaPanels& panels);
  // One mma.sync of 16 rows, `k` being 8 or 16, with sums in fp32: registers of 32 lanes as fragments.hpp
  // tells, which may be the same ones. nullptr on hosts whose products and sums are not fused.
  void (*multiply_f16_fragments)(const std::uint32_t* const* a, const std::uint32_t* const* b,
                                 const std::uint32_t* const* c, int k, std::uint32_t* const* d);
  void (*multiply_bf16_fragments)(const std::uint32_t* const* a, const std::uint32_t* const* b,
                                  const std::uint32_t* const* c, int k, std::uint32_t* const* d);
  // a * b + c, rounded once.
  double (*fused_f64)(double a, double b, double c);
  // `rows` (a multiple of 8) runs of `chunks` times eight elements each, transposed and widened:
  // out[k * stride + row]. Chunk i of a run lies at its address ^ 16 * i: swizzled.
  void (*transpose_f16_runs)(const std::uint8_t* smem, const std::uint32_t* addresses, int rows,
                             std::uint32_t chunks, float* out, std::int64_t stride);
  void (*transpose_bf16_runs)(const std::uint8_t* smem, const std::uint32_t* addresses, int rows,
                              std::uint32_t chunks, float* out, std::int64_t stride);
  // `count` (a multiple of 8) contiguous elements, widened.
  void (*widen_f16)(const std::uint8_t* source, float* out, int count);
  void (*widen_bf16)(const std::uint8_t* source, float* out, int count);
  // Runs as above, widened one after another, `stride` floats apart.
  void (*widen_f16_runs)(const std::uint8_t* smem, const std::uint32_t* addresses, int runs,
                         std::uint32_t chunks, float* out, std::int64_t stride);
  void (*widen_bf16_runs)(const std::uint8_t* smem, const std::uint32_t* addresses, int runs,
                          std::uint32_t chunks, float* out, std::int64_t stride);
  // Both halves of `count` (a multiple of 8) words.
  void (*widen_f16_pairs)(const std::uint32_t* words, int count, float* low, float* high);
  void (*widen_bf16_pairs)(const std::uint32_t* words, int count, float* low, float* high);
  // The elements of sixteen bytes.
  void (*widen_f16_chunk)(const std::uint8_t* source, float* out);
  void (*widen_bf16_chunk)(const std::uint8_t* source, float* out);
  void (*widen_e4m3)(const std::uint8_t* source, float* out);
  void (*widen_e5m2)(const std::uint8_t* source, float* out);
  // Rounds `count` (a multiple of 8) values to fp16, to nearest even; every NaN becomes 0x7fff.
  void (*narrow_f16)(const float* source, std::uint16_t* out, int count);
  // Eight rows of eight 16-bit elements, or sixteen of sixteen bytes, transposed.
  void (*transpose_halves)(const std::uint8_t* const rows[8], std::uint16_t* out);
  void (*transpose_bytes)(const std::uint8_t* const rows[16], std::uint8_t* out);
  // An accumulator fragment of one warp: 32 lanes hold 8 rows x 4 columns (row lane / 4, column lane % 4),
  // `upper` rows 0-7 and `lower` rows 8-15. The four columns of sixteen rows are `stride` floats apart. Bits
  // are not changed.
  void (*fragment_to_columns)(const std::uint32_t* upper, const std::uint32_t* lower, float* columns,
                              std::int64_t stride);
  void (*columns_to_fragment)(const float* columns, std::int64_t stride, std::uint32_t* upper,
                              std::uint32_t* lower);
  // Each lane's destination, source and bytes to read.
  CopiesFound (*place_copies)(const CopyLanes& copy, std::uint32_t* shared, std::uint64_t* global,
                              std::uint8_t* reads);
};

const MmaKernels& mma_kernels();

extern const MmaKernels kMmaKernelsBaseline;
extern const MmaKernels kMmaKernelsAvx2;
extern const MmaKernels kMmaKernelsAvx512;

}  // namespace sglab::emu
