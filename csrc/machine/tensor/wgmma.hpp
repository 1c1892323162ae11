#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "machine/tensor/element.hpp"
#include "machine/tensor/operand.hpp"
#include "machine/tensor/sparse_fragments.hpp"

namespace sglab::emu {

class WgmmaAccumulators;

// One wgmma.mma_async.m64nNkK.
struct Wgmma {
  int n;
  int k;
  ElementType a_type, b_type;
  ElementType d_type = ElementType::kF32;  // or f16, s32
  Major a_major = Major::kK;
  Major b_major = Major::kK;
  bool negate_a = false;
  bool negate_b = false;
  bool saturate = false;
  bool scale_d = true;  // false: D = A B
  bool sparse = false;  // A has k / 2 elements in each row
  SparseLayout sparsity{};
  std::optional<SmemDescriptor> a_smem;  // else A is in registers
  SmemDescriptor b_smem;
  std::uint64_t a = 0, b = 0;               // the descriptors as the instruction has them
  const WgmmaAccumulators* sums = nullptr;  // once it was carried out: D

  int stored_k() const { return sparse ? k / 2 : k; }  // of A
};

// A warpgroup's accumulators as a matrix of 64 rows, [n][64]: fp32 values, or s32 bit patterns.
//
// A chain of wgmma on one set of registers keeps its sums here, since the registers are not readable before
// the wait.
class WgmmaAccumulators {
 public:
  WgmmaAccumulators(ElementType type, int n) : type_(type), n_(n), cells_(64 * static_cast<std::size_t>(n)) {}

  static int registers(ElementType type, int n) { return type == ElementType::kF16 ? n / 4 : n / 2; }

  // One warp's registers, [register][32 lanes], into or out of its sixteen rows.
  void load_warp(int warp, const std::uint32_t* registers);
  void store_warp(int warp, std::uint32_t* registers) const;

  // D (+)= A B. `a_registers[warp]` holds A's registers per warp when A is not in shared memory, and then the
  // metadata of a sparse A.
  void multiply(const Wgmma& wgmma, SmemView smem, const std::array<const std::uint32_t*, 4>& a_registers);

  ElementType type() const { return type_; }
  int n() const { return n_; }
  float* column(int n) { return cells_.data() + 64 * n; }
  const float* column(int n) const { return cells_.data() + 64 * n; }

 private:
  ElementType type_;
  int n_;
  std::vector<float> cells_;
};

}  // namespace sglab::emu
