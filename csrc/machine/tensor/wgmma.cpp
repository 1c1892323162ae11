#include "machine/tensor/wgmma.hpp"

#include <algorithm>
#include <cstring>

#include "machine/tensor/fragments.hpp"

namespace sglab::emu {
namespace {

struct Scratch {
  std::vector<float> a, b, sum, spread;
};

float* room(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
  return buffer.data();
}

}  // namespace

void WgmmaAccumulators::load_warp(int warp, const std::uint32_t* registers) {
  if (type_ != ElementType::kF16) {
    for (int block = 0; block < n_ / 8; ++block) {
      for (int parity = 0; parity < 2; ++parity) {
        const std::uint32_t* upper = registers + 32 * (4 * block + parity);
        mma_kernels().fragment_to_columns(upper, upper + 64, column(8 * block + parity) + 16 * warp, 128);
      }
    }
    return;
  }
  for (int r = 0; r < n_ / 4; ++r) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = 16 * warp + lane / 4 + 8 * (r % 2), first = 8 * (r / 2) + 2 * (lane % 4);
      const std::uint32_t word = registers[32 * r + lane];
      column(first)[row] = decode_element(ElementType::kF16, word & 0xffffu);
      column(first + 1)[row] = decode_element(ElementType::kF16, word >> 16);
    }
  }
}

void WgmmaAccumulators::store_warp(int warp, std::uint32_t* registers) const {
  if (type_ != ElementType::kF16) {
    for (int block = 0; block < n_ / 8; ++block) {
      for (int parity = 0; parity < 2; ++parity) {
        std::uint32_t* upper = registers + 32 * (4 * block + parity);
        mma_kernels().columns_to_fragment(column(8 * block + parity) + 16 * warp, 128, upper, upper + 64);
      }
    }
    return;
  }
  for (int r = 0; r < n_ / 4; ++r) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = 16 * warp + lane / 4 + 8 * (r % 2), first = 8 * (r / 2) + 2 * (lane % 4);
      registers[32 * r + lane] = encode_element(ElementType::kF16, column(first)[row], false) |
                                 encode_element(ElementType::kF16, column(first + 1)[row], false) << 16;
    }
  }
}

void WgmmaAccumulators::multiply(const Wgmma& w, SmemView smem,
                                 const std::array<const std::uint32_t*, 4>& a_registers) {
  thread_local Scratch scratch;
  float* a = room(scratch.a, 64 * static_cast<std::size_t>(w.k));
  float* b = room(scratch.b, static_cast<std::size_t>(w.n) * w.k);
  const bool k_major = w.b_major == Major::kK;
  const std::int64_t b_stride_n = k_major ? w.k : 1, b_stride_k = k_major ? 1 : w.n;
  gather_operand(smem, w.b_smem, {w.b_type, w.b_major, w.n, w.k, false}, {b, b_stride_n, b_stride_k});
  if (w.a_smem) {
    gather_operand(smem, *w.a_smem, {w.a_type, w.a_major, 64, w.stored_k(), false}, {a, 1, 64});
  } else {
    float panel[16 * 256];
    for (int warp = 0; warp < 4; ++warp) {
      unpack_a(w.a_type, 16, w.stored_k(), a_registers[warp], panel);
      for (int k = 0; k < w.stored_k(); ++k) std::memcpy(a + 64 * k + 16 * warp, panel + 16 * k, 64);
    }
  }
  if (w.sparse) {
    float* const spread = room(scratch.spread, 64 * static_cast<std::size_t>(w.k));
    for (int warp = 0; warp < 4; ++warp) {
      const std::uint32_t* const metadata = a_registers[warp] + (w.a_smem ? 0 : 4 * 32);
      spread_sparse_rows(w.a_type, w.sparsity, metadata, a + 16 * warp, 64, spread + 16 * warp);
    }
    a = spread;
  }
  if (w.negate_a != w.negate_b) std::transform(a, a + 64 * w.k, a, [](float x) { return -x; });
  MmaPanels panels{a, 64, b, b_stride_n, b_stride_k, cells_.data(), 64, 64, w.n, w.k, w.scale_d};
  if (type_ != ElementType::kS32) {
    mma_kernels().multiply(panels);
    if (type_ == ElementType::kF16) {
      std::uint16_t halves[64];
      for (std::size_t at = 0; at < cells_.size(); at += 64) {
        mma_kernels().narrow_f16(&cells_[at], halves, 64);
        mma_kernels().widen_f16(reinterpret_cast<const std::uint8_t*>(halves), &cells_[at], 64);
      }
    }
    return;
  }
  // Sums of 32 products of bytes are exact in fp32; they are added to the accumulators as integers.
  panels.d = room(scratch.sum, cells_.size());
  panels.accumulate = false;
  mma_kernels().multiply(panels);
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const std::int64_t old = w.scale_d ? static_cast<std::int32_t>(float_to_bits(cells_[i])) : 0;
    std::int64_t sum = old + static_cast<std::int64_t>(panels.d[i]);
    if (w.saturate) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
    cells_[i] = bits_to_float(static_cast<std::uint32_t>(sum));
  }
}

}  // namespace sglab::emu
