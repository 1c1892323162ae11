#include "machine/tensor/tcgen05_mma.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "machine/tensor/mma_panels.hpp"

namespace sglab::emu {
namespace {

// Working memory of one MMA, kept by each thread: the largest operands are 256 x 128 elements.
struct Scratch {
  std::vector<float> a, a_stored, a_block, b, b_block, d;
};

float* room(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
  return buffer.data();
}

void require_columns(const char* what, std::uint32_t column, int columns) {
  if (column + static_cast<std::uint32_t>(columns) <= TensorMemory::kColumns) return;
  throw std::out_of_range(std::string("tcgen05.mma: ") + what + " covers columns " + std::to_string(column) +
                          " to " + std::to_string(column + static_cast<std::uint32_t>(columns) - 1) +
                          " of tensor memory's 512");
}

DatapathLayout layout_of(const Tcgen05Mma& mma) {
  const InstructionDescriptor& d = mma.descriptor;
  return datapath_layout(d.m, d.n, mma.cta_group, mma.weight_stationary, d.sparse);
}

int stored_k_of(const InstructionDescriptor& d) {
  return d.sparse ? d.k / 2 : d.k;
}

// Whether D's cells are the sums themselves.
bool sums_in_place(const Tcgen05Mma& mma) {
  const bool masked = std::any_of(mma.disabled_lanes.begin(), mma.disabled_lanes.end(),
                                  [](std::uint32_t bits) { return bits != 0; });
  return mma.descriptor.d_type == ElementType::kF32 && !masked && mma.scale_input_d == 0;
}

// Whether A of the next product can be read before the first has written D.
bool a_is_apart(const Tcgen05Mma& first, const Tcgen05Mma& next) {
  if (first.a_smem || next.a_smem) return first.a_smem && next.a_smem;
  if (first.shift_a || next.shift_a) return false;
  const InstructionDescriptor& d = next.descriptor;
  const int columns = tmem_a_columns(d.a_type, is_four_bit(d.kind), stored_k_of(d));
  return next.a_tmem.column + static_cast<std::uint32_t>(columns) <= next.d.column ||
         next.d.column + static_cast<std::uint32_t>(accumulator_columns(next)) <= next.a_tmem.column;
}

class Operation {
 public:
  // The second and further ones continue the first.
  Operation(std::span<const Tcgen05Mma* const> mmas, std::span<const MmaCta> ctas, Scratch& scratch)
      : mmas_(mmas),
        mma_(*mmas.front()),
        d_(mma_.descriptor),
        ctas_(ctas),
        scratch_(scratch),
        layout_(layout_of(mma_)),
        stored_k_(stored_k_of(d_)),
        k_(d_.k * static_cast<int>(mmas.size())),
        packed_fp4_(is_four_bit(d_.kind)) {}

  void run() {
    gather_b();
    if (mma_.a_smem) gather_a_smem();
    for (int i = 0; i < layout_.block_count; ++i) multiply_block(layout_.blocks[i]);
  }

 private:
  // An operand of all instructions, one after the other along K; each CTA holds its own rows. Instructions
  // commonly go along the rows of an atom, and then all are one operand.
  template <typename DescriptorOf>
  void gather(DescriptorOf descriptor_of, OperandShape shape, const PanelOut& out) {
    const SmemDescriptor& first = descriptor_of(mma_);
    int number = 1, operands = static_cast<int>(mmas_.size());
    while (number < operands && continues_row(first, descriptor_of(*mmas_[number]), shape, number)) ++number;
    const int step = number == operands ? operands : 1, k = shape.k;
    shape.k *= step;
    for (int i = 0; i < operands; i += step) {
      for (int cta = 0; cta < mma_.cta_group; ++cta) {
        gather_operand(ctas_[cta].smem, descriptor_of(*mmas_[i]), shape,
                       {out.data + i * k * out.k_stride + cta * shape.rows * out.row_stride, out.row_stride,
                        out.k_stride});
      }
    }
  }

  // B, whole: each CTA of the group holds an equal share of its columns.
  void gather_b() {
    const int share = d_.n / mma_.cta_group;
    b_ = room(scratch_.b, static_cast<std::size_t>(d_.n) * k_);
    const bool k_major = d_.b_major == Major::kK;
    b_stride_n_ = k_major ? k_ : 1;
    b_stride_k_ = k_major ? 1 : d_.n;
    const OperandShape shape = {d_.b_type, d_.b_major, share, d_.k, packed_fp4_};
    gather([](const Tcgen05Mma& mma) -> const SmemDescriptor& { return mma.b_smem; }, shape,
           {b_, b_stride_n_, b_stride_k_});
    for (int n = 0; n < d_.n; ++n) {
      if (!(mma_.zero_columns[n / 64] >> (n % 64) & 1)) continue;
      for (int k = 0; k < k_; ++k) b_[n * b_stride_n_ + k * b_stride_k_] = 0.0f;
    }
  }

  // A, whole, from shared memory: each CTA holds its own rows.
  void gather_a_smem() {
    const int share = d_.m / mma_.cta_group;
    const std::size_t size = static_cast<std::size_t>(d_.m) * stored_k_ * mmas_.size();
    a_ = room(d_.sparse ? scratch_.a_stored : scratch_.a, size);
    gather([](const Tcgen05Mma& mma) -> const SmemDescriptor& { return *mma.a_smem; },
           {d_.a_type, d_.a_major, share, stored_k_, packed_fp4_}, {a_, 1, d_.m});
    if (d_.negate_a != d_.negate_b) std::transform(a_, a_ + size, a_, [](float x) { return -x; });
  }

  // The rows of A that one block needs, [k][rows], with sparsity resolved.
  MmaPanels panels_of(const DatapathBlock& block) {
    const TensorMemory& tmem = *ctas_[block.cta].tmem;
    const std::uint32_t lane = mma_.d.lane + block.lane;
    const float* a;
    std::int64_t stride;
    if (mma_.a_smem) {
      a = a_ + block.row;
      stride = d_.m;
    } else {
      const std::size_t part = static_cast<std::size_t>(block.rows) * stored_k_, size = part * mmas_.size();
      float* out = room(d_.sparse ? scratch_.a_stored : scratch_.a, size);
      for (std::size_t i = 0; i < mmas_.size(); ++i) {
        gather_tmem_a(tmem, d_.a_type, packed_fp4_, lane, mmas_[i]->a_tmem.column, block.rows, stored_k_,
                      out + i * part);
      }
      if (mma_.shift_a) shift_rows(block, tmem, out);
      if (d_.negate_a != d_.negate_b) std::transform(out, out + size, out, [](float x) { return -x; });
      a = out;
      stride = block.rows;
    }
    if (d_.sparse) {
      float* out = room(scratch_.a_block, static_cast<std::size_t>(stride) * d_.k);
      expand_sparse_a(tmem, d_, mma_.sparsity_metadata, lane, block.rows, stride, a, out);
      a = out;
    }
    return {a,
            stride,
            b_ + block.column * b_stride_n_,
            b_stride_n_,
            b_stride_k_,
            nullptr,
            0,
            block.rows,
            block.columns,
            k_,
            mma_.enable_input_d};
  }

  // .ashift, on [k][rows] of a block. What comes after its last row lies in another block of the CTA or,
  // after the CTA's last row, nowhere: that row stays.
  void shift_rows(const DatapathBlock& block, const TensorMemory& tmem, float* a) {
    const auto blocks = std::span(layout_.blocks).first(static_cast<std::size_t>(layout_.block_count));
    const auto next = std::find_if(blocks.begin(), blocks.end(), [&block](const DatapathBlock& other) {
      return other.cta == block.cta && other.column == block.column && other.row == block.row + block.rows;
    });
    float* last = nullptr;
    if (next != blocks.end()) {
      last = room(scratch_.a_block, static_cast<std::size_t>(stored_k_));
      gather_tmem_a(tmem, d_.a_type, packed_fp4_, mma_.d.lane + static_cast<std::uint32_t>(next->lane),
                    mma_.a_tmem.column, 1, stored_k_, last);
    }
    for (int k = 0; k < stored_k_; ++k) {
      float* line = a + static_cast<std::int64_t>(k) * block.rows;
      std::copy(line + 1, line + block.rows, line);
      if (last != nullptr) line[block.rows - 1] = last[k];
    }
  }

  // Copies of the panels with the scale factors multiplied in.
  void apply_scales(const DatapathBlock& block, MmaPanels& p) {
    const TensorMemory& tmem = *ctas_[block.cta].tmem;
    const int local_row = block.row - block.cta * (d_.m / mma_.cta_group);
    float* a = room(scratch_.a_stored, static_cast<std::size_t>(p.m) * p.k);
    float* b = room(scratch_.b_block, static_cast<std::size_t>(p.n) * p.k);
    for (int k = 0; k < p.k; ++k) {
      const int scale = k / mma_.scale_block;
      for (int m = 0; m < p.m; ++m) {
        const std::uint32_t partition = (block.lane + m) / 32 * 32;
        a[k * p.m + m] = p.a[k * p.a_stride + m] * scale_factor(tmem, d_.scale_type, mma_.scale_a, partition,
                                                                local_row + m, scale, d_.a_scale_id);
      }
      for (int n = 0; n < p.n; ++n) {
        b[n * p.k + k] = p.b[n * p.b_stride_n + k * p.b_stride_k] *
                         scale_factor(tmem, d_.scale_type, mma_.scale_b, block.lane, n, scale, d_.b_scale_id);
      }
    }
    p.a = a, p.a_stride = p.m;
    p.b = b, p.b_stride_n = p.k, p.b_stride_k = 1;
  }

  void multiply_block(const DatapathBlock& block) {
    MmaPanels p = panels_of(block);
    if (is_block_scaled(d_.kind)) apply_scales(block, p);
    TensorMemory& tmem = *ctas_[block.cta].tmem;
    const std::uint32_t lane = mma_.d.lane + block.lane;
    if (sums_in_place(mma_)) {
      p.d = reinterpret_cast<float*>(tmem.column(mma_.d.column) + lane);
      p.d_stride = TensorMemory::kLanes;
      mma_kernels().multiply(p);
      tmem.mark_written(mma_.d.column, p.n, lane, p.m);
      return;
    }
    multiply_converted(block.cta, p, tmem, lane);
  }

  // The general way: D through a converted copy, and back lane by lane.
  void multiply_converted(int cta, MmaPanels& p, TensorMemory& tmem, std::uint32_t lane) {
    float* sum = room(scratch_.d, static_cast<std::size_t>(p.m) * p.n);
    const bool integer = d_.d_type == ElementType::kS32;
    if (p.accumulate && !integer) {
      const float scale = bits_to_float(static_cast<std::uint32_t>(127 - mma_.scale_input_d) << 23);
      for (int n = 0; n < p.n; ++n) {
        const std::uint32_t* cells = tmem.column(mma_.d.column + n) + lane;
        for (int m = 0; m < p.m; ++m) sum[n * p.m + m] = decode_element(d_.d_type, cells[m]) * scale;
      }
    }
    const bool add_integers = integer && p.accumulate;
    // A sum of 64 products of bytes is exact in fp32, so integer sums start at zero and are added as
    // integers.
    if (integer) p.accumulate = false;
    p.d = sum;
    p.d_stride = p.m;
    mma_kernels().multiply(p);
    for (int n = 0; n < p.n; ++n) {
      std::uint32_t* cells = tmem.column(mma_.d.column + n) + lane;
      for (int m = 0; m < p.m; ++m) {
        const std::uint32_t at = lane + m;
        if (mma_.disabled_lanes[4 * cta + at / 32] >> (at % 32) & 1) continue;
        const float value = sum[n * p.m + m];
        cells[m] = integer ? add_integer(add_integers ? cells[m] : 0, value)
                           : encode_element(d_.d_type, value, false);
        tmem.mark_written(mma_.d.column + n, at, 1);
      }
    }
  }

  std::uint32_t add_integer(std::uint32_t old, float value) const {
    const std::int64_t sum =
        static_cast<std::int64_t>(static_cast<std::int32_t>(old)) + static_cast<std::int64_t>(value);
    if (!d_.saturate) return static_cast<std::uint32_t>(sum);
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX));
  }

  std::span<const Tcgen05Mma* const> mmas_;
  const Tcgen05Mma& mma_;
  const InstructionDescriptor& d_;
  std::span<const MmaCta> ctas_;
  Scratch& scratch_;
  DatapathLayout layout_;
  int stored_k_;
  int k_;  // of all together
  bool packed_fp4_;
  float* a_ = nullptr;
  float* b_ = nullptr;
  std::int64_t b_stride_n_ = 0;
  std::int64_t b_stride_k_ = 0;
};

}  // namespace

int accumulator_columns(const Tcgen05Mma& mma) {
  return layout_of(mma).blocks[0].columns;
}

void check_mma_cells(const Tcgen05Mma& mma) {
  const InstructionDescriptor& d = mma.descriptor;
  const DatapathLayout layout = layout_of(mma);
  const std::uint32_t half = layout.id == 'F' || layout.id == 'C' ? 16u : 0u;
  if (mma.d.lane != 0 && mma.d.lane != half) {
    throw std::out_of_range("tcgen05.mma: matrix D at lane " + std::to_string(mma.d.lane) + "; layout " +
                            layout.id + (half ? " begins at lane 0 or 16" : " begins at lane 0"));
  }
  require_columns("matrix D", mma.d.column, layout.blocks[0].columns);
  if (!mma.a_smem) {
    if (mma.a_tmem.lane != mma.d.lane)
      throw std::out_of_range("tcgen05.mma: matrix A in tensor memory must begin at the lane of matrix D");
    require_columns("matrix A", mma.a_tmem.column,
                    tmem_a_columns(d.a_type, is_four_bit(d.kind), stored_k_of(d)));
    if (mma.shift_a && d.m != 128 && d.m != 256)
      throw std::invalid_argument("tcgen05.mma: .ashift needs M = 128 or 256, not " + std::to_string(d.m));
  }
  if (d.sparse)
    require_columns("sparsity metadata", mma.sparsity_metadata.column, d.kind <= MmaKind::kTf32 ? 1 : 2);
  if (is_block_scaled(d.kind)) {
    require_columns("scale factors of A", mma.scale_a.column, (d.m / mma.cta_group + 31) / 32);
    require_columns("scale factors of B", mma.scale_b.column, (layout.blocks[0].columns + 31) / 32);
  }
}

std::array<std::uint64_t, 4> decode_zero_column_mask(std::uint64_t bits, int m, int n) {
  std::array<std::uint64_t, 4> mask{};
  const auto byte = [bits](int low) { return static_cast<int>(bits >> low & 0xff); };
  if (!(bits >> 39 & 1)) return mask;
  if (bits >> 56 & 0x3f) throw std::invalid_argument("tcgen05.mma.ws: a column shift is not implemented");
  const int parts = m == 128 ? 1 : m == 64 ? 2 : 4;
  const int zeroed = byte(40) + 1, used = byte(48) + 1;  // as CuTe names them, and as the ISA's examples go
  for (int part = 0; part < parts; ++part) {
    // The pattern alternates `used` columns that count and `zeroed` columns that do not; the first span says
    // which comes first, the start count how many of its columns are skipped.
    bool zero = bits >> (32 + part) & 1;
    int left = (zero ? zeroed : used) - byte(8 * part);
    for (int column = 0; column < n / parts; ++column) {
      while (left <= 0) {
        zero = !zero;
        left += zero ? zeroed : used;
      }
      const int at = part * (n / parts) + column;
      if (zero) mask[at / 64] |= 1ull << (at % 64);
      --left;
    }
  }
  return mask;
}

void run_tcgen05_mma(const Tcgen05Mma& mma, std::span<const MmaCta> ctas) {
  const std::array<const Tcgen05Mma*, 1> alone = {&mma};
  run_tcgen05_product(alone, ctas);
}

bool continues_product(const Tcgen05Mma& first, const Tcgen05Mma& next) {
  const InstructionDescriptor& d = next.descriptor;
  return next.enable_input_d && a_is_apart(first, next) && first.descriptor == d && !d.sparse &&
         !is_block_scaled(d.kind) && first.cta_group == next.cta_group &&
         first.weight_stationary == next.weight_stationary && first.d.encode() == next.d.encode() &&
         sums_in_place(first) && sums_in_place(next) && first.zero_columns == next.zero_columns;
}

void run_tcgen05_product(std::span<const Tcgen05Mma* const> mmas, std::span<const MmaCta> ctas) {
  thread_local Scratch scratch;
  Operation(mmas, ctas, scratch).run();
}

}  // namespace sglab::emu
