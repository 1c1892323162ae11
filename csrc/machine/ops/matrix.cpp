// mma.sync, ldmatrix, stmatrix, movmatrix.

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "machine/ops/mma_operands.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_families.hpp"
#include "machine/tensor/fragments.hpp"
#include "machine/tensor/matrix_move.hpp"
#include "machine/tensor/mma_kernel.hpp"

namespace sglab::emu {
namespace {

// Copies `count` registers into [register][32].
template <typename T>
const Ref* read_registers(const Warp& w, const Ref* refs, int count, T* out) {
  for (int r = 0; r < count; ++r) {
    std::memcpy(out + 32 * r, w.bank[refs[r] >> 31] + (refs[r] & ~kConstantRef), 32 * sizeof(T));
  }
  return refs + count;
}

// Of 16-bit elements, summed in fp32.
void multiply_registers(Warp& w, const MmaOperands& plan, const Ref* refs) {
  std::uint32_t* d[4];
  const std::uint32_t *a[4], *b[2], *c[4];
  for (int r = 0; r < 4; ++r) d[r] = write32(w, *refs++);
  for (int r = 0; r < plan.a; ++r) a[r] = lanes32(w, *refs++);
  for (int r = 0; r < plan.b; ++r) b[r] = lanes32(w, *refs++);
  for (int r = 0; r < 4; ++r) c[r] = lanes32(w, *refs++);
  const MmaKernels& kernels = mma_kernels();
  const bool half = plan.mma.a_type == ElementType::kF16;
  (half ? kernels.multiply_f16_fragments : kernels.multiply_bf16_fragments)(a, b, c, plan.mma.k, d);
}

bool lies_in_registers(const WarpMma& mma) {
  const bool sixteen = mma.a_type == ElementType::kF16 || mma.a_type == ElementType::kBf16;
  return mma_kernels().multiply_f16_fragments != nullptr && sixteen && mma.b_type == mma.a_type &&
         mma.d_type == ElementType::kF32 && mma.c_type == ElementType::kF32 && mma.m == 16 && !mma.sparse &&
         (mma.k == 8 || mma.k == 16);
}

const Inst* mma(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const MmaOperands& plan = payload<MmaOperands>(i);
  const Ref* const d = i->extra->refs.data();
  if (plan.in_registers) {
    multiply_registers(w, plan, d);
    return i + 1;
  }
  std::uint32_t a[4 * 32], b[4 * 32], c[4 * 32], out[4 * 32];
  const Ref* next = read_registers(w, d + plan.d, plan.a, a);
  next = read_registers(w, next, plan.b, b);
  next = read_registers(w, next, plan.c, c);
  if (plan.mma.sparse) {
    try {
      run_warp_mma(plan.mma, a, b, c, out, lanes32(w, *next));
    } catch (const std::invalid_argument& error) {
      raise_fault(w, i, -1, "tensor_core", error.what());
    }
  } else {
    run_warp_mma(plan.mma, a, b, c, out);
  }
  for (int r = 0; r < plan.d; ++r) std::memcpy(write32(w, d[r]), out + 32 * r, 128);
  return i + 1;
}

const Inst* mma_f64(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const MmaOperands& plan = payload<MmaOperands>(i);
  const Ref* const d = i->extra->refs.data();
  double a[8 * 32], b[4 * 32], c[4 * 32], out[4 * 32];
  const Ref* next = read_registers(w, d + plan.d, plan.a, a);
  next = read_registers(w, next, plan.b, b);
  read_registers(w, next, plan.c, c);
  run_warp_mma_f64(plan.mma.m, plan.mma.k, a, b, c, out);
  for (int r = 0; r < plan.d; ++r) std::memcpy(write64(w, d[r]), out + 32 * r, 256);
  return i + 1;
}

ElementType element(const Builder& b, std::string_view name) {
  for (int t = 0; t <= static_cast<int>(ElementType::kS32); ++t) {
    if (element_name(static_cast<ElementType>(t)) == name) return static_cast<ElementType>(t);
  }
  b.refuse("unknown element type " + std::string(name));
}

void build_mma(Builder& b) {
  const bool sparse = b.has("sp") || b.has("sp::ordered_metadata");
  b.expect_count(sparse ? 6 : 4, sparse ? 6 : 4);
  // …row.col[.satfinite].dtype.atype.btype.ctype[.op.popc]
  std::vector<std::string_view> types;
  std::string_view shape;
  for (const std::string_view part : b.form.parts) {
    if (part[0] == 'm' && part.size() > 4 && part[1] <= '9') shape = part;
    for (int t = 0; t <= static_cast<int>(ElementType::kS32); ++t) {
      if (element_name(static_cast<ElementType>(t)) == part) types.push_back(part);
    }
  }
  const int m = shape[1] == '8' ? 8 : 16;
  const int k = std::stoi(std::string(shape.substr(shape.find('k') + 1)));
  const ElementType d = element(b, types[0]), a = element(b, types[1]), right = element(b, types[2]);
  if (element(b, types[3]) != d) b.refuse("C and D of different types are not implemented");
  const bool wide = d == ElementType::kF64;
  const char letter = wide ? 'l' : 'w';
  const int counts[4] = {m / (d == ElementType::kF16 ? 8 : 4),
                         wide ? m / 8 * k / 4 : a_registers(a, m, sparse ? k / 2 : k),
                         wide ? k / 4 : b_registers(right, k), m / (d == ElementType::kF16 ? 8 : 4)};
  for (unsigned operand = 0; operand < 4; ++operand) {
    const unsigned given =
        operand == 0 ? b.def_vector(b.operand(0), letter) : b.use_vector(b.operand(operand), letter);
    if (given != static_cast<unsigned>(counts[operand])) {
      b.refuse("operand " + std::to_string(operand + 1) + " needs " + std::to_string(counts[operand]) +
               " registers, found " + std::to_string(given));
    }
  }
  const WarpMma::BitOp bits = b.has("xor")   ? WarpMma::BitOp::kXor
                              : b.has("and") ? WarpMma::BitOp::kAnd
                                             : WarpMma::BitOp::kNone;
  MmaOperands plan{
      counts[0], counts[1], counts[2], counts[3], {m, k, a, right, d, d, b.has("satfinite"), bits}};
  if (sparse) {
    plan.mma.sparse = true;
    b.use_extra(b.operand(4), 'w');
    const auto selector = b.integer(b.operand(5), 0, sparsity_selectors(a, k) - 1, "the sparsity selector");
    plan.mma.sparsity = {k, static_cast<int>(selector), b.has("sp::ordered_metadata")};
  }
  plan.in_registers = lies_in_registers(plan.mma);
  b.extra().payload = plan;
}

const Inst* mma_quad_pairs(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const auto& mma = payload<QuadPairMma>(i);
  const Ref* const d = i->extra->refs.data();
  const int results = mma.d_wide ? 8 : 4;
  std::uint32_t a[2 * 32], b[2 * 32], c[8 * 32], out[8 * 32];
  const Ref* next = read_registers(w, d + results, 2, a);
  next = read_registers(w, next, 2, b);
  read_registers(w, next, mma.c_wide ? 8 : 4, c);
  run_quad_pair_mma(mma, a, b, c, out);
  for (int r = 0; r < results; ++r) std::memcpy(write32(w, d[r]), out + 32 * r, 128);
  return i + 1;
}

void build_quad_pairs(Builder& b) {
  b.expect_count(4, 4);
  // m8n8k4.alayout.blayout.dtype.f16.f16.ctype
  const auto parts = b.form.parts;
  const std::size_t shape =
      static_cast<std::size_t>(std::find(parts.begin(), parts.end(), "m8n8k4") - parts.begin());
  const QuadPairMma mma{parts[shape + 1] == "row", parts[shape + 2] == "row", parts.back() == "f32",
                        parts[shape + 3] == "f32"};
  if (mma.c_wide && !mma.d_wide) b.refuse("C of f32 needs D of f32");
  const unsigned counts[4] = {mma.d_wide ? 8u : 4u, 2, 2, mma.c_wide ? 8u : 4u};
  for (unsigned operand = 0; operand < 4; ++operand) {
    const unsigned given =
        operand == 0 ? b.def_vector(b.operand(0), 'w') : b.use_vector(b.operand(operand), 'w');
    if (given != counts[operand]) b.refuse("operand " + std::to_string(operand + 1) + " has the wrong size");
  }
  b.extra().payload = mma;
}

// The rows' addresses, from threads 0 on; each must be aligned to its sixteen bytes.
void row_pointers(const Warp& w, const Inst* i, int rows, std::uint8_t** out) {
  for (int lane = 0; lane < rows; ++lane) {
    const std::uint32_t address = shared_address(w, i, main_address(i), lane);
    if (address % 16 != 0) {
      raise_fault(w, i, lane, "misaligned",
                  "matrix row at shared address " + hex(address) + " is not aligned to 16 bytes");
    }
    out[lane] = shared_bytes(w, i, lane, address, 16);
  }
}

const Inst* load(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const MatrixMove& move = payload<MatrixMove>(i);
  std::uint8_t* rows[32];
  row_pointers(w, i, matrix_rows(move), rows);
  std::uint32_t registers[4 * 32];
  load_matrices(move, rows, registers);
  for (int r = 0; r < matrix_registers(move); ++r) {
    std::memcpy(write32(w, i->extra->refs[static_cast<std::size_t>(r)]), registers + 32 * r, 128);
  }
  return i + 1;
}

const Inst* store(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const MatrixMove& move = payload<MatrixMove>(i);
  std::uint8_t* rows[32];
  row_pointers(w, i, matrix_rows(move), rows);
  std::uint32_t registers[4 * 32];
  read_registers(w, i->extra->refs.data(), matrix_registers(move), registers);
  store_matrices(move, rows, registers);
  return i + 1;
}

void build_move(Builder& b) {
  b.expect_count(2, 2);
  const bool loads = b.form.mnemonic.substr(0, 2) == "ld";
  MatrixMove move{MatrixShape::k8x8B16, b.has("x4") ? 4 : b.has("x2") ? 2 : 1, b.has("trans")};
  if (b.has("m16n16")) move.shape = MatrixShape::k16x16B8;
  if (b.has("m8n16")) move.shape = MatrixShape::k8x16B8;
  if (b.has("m16n8")) move.shape = MatrixShape::k16x8B8;
  if (b.has("b4x16_p64")) move.format = CopyFormat::kB4x16P64;
  if (b.has("b6x16_p32")) move.format = CopyFormat::kB6x16P32;
  const Operand& vector = b.operand(loads ? 0 : 1);
  const unsigned given = loads ? b.def_vector(vector, 'w') : b.use_vector(vector, 'w');
  if (given != static_cast<unsigned>(matrix_registers(move))) {
    b.refuse("expected " + std::to_string(matrix_registers(move)) + " registers");
  }
  b.address(b.operand(loads ? 1 : 0));
  b.effects.rows = static_cast<std::uint8_t>(matrix_rows(move));
  b.extra().payload = move;
}

const Inst* transpose(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  transpose_matrix(lanes32(w, i->a), write32(w, i->d));
  return i + 1;
}

void build_transpose(Builder& b) {
  b.expect_count(2, 2);
  b.def(Field::kD, b.operand(0), 'w');
  b.use(Field::kA, b.operand(1), 'w');
}

void register_sparse_mma(Table& t) {
  static constexpr const char* kForms[] = {
      "{m16n8k16|m16n8k32}.row.col.{f16|f32}.f16.f16.{f16|f32}",
      "{m16n8k16|m16n8k32}.row.col.f32.bf16.bf16.f32",
      "{m16n8k8|m16n8k16}.row.col.f32.tf32.tf32.f32",
      "m16n8k64.row.col[.kind::f8f6f4].f32.{e4m3|e5m2}.{e4m3|e5m2}.f32",
      "{m16n8k32|m16n8k64}.row.col[.satfinite].s32.{s8|u8}.{s8|u8}.s32",
      "{m16n8k64|m16n8k128}.row.col[.satfinite].s32.{s4|u4}.{s4|u4}.s32",
  };
  for (const char* form : kForms)
    t.row((std::string("mma.{sp|sp::ordered_metadata}.sync.aligned.") + form).c_str(), does::multiplies(),
          build_mma, mma);
}

void register_mma(Table& t) {
  t.row("mma.sync.aligned.{m16n8k8|m16n8k16}.row.col.{f16|f32}.f16.f16.{f16|f32}", does::multiplies(),
        build_mma, mma);
  t.row("mma.sync.aligned.{m16n8k8|m16n8k16}.row.col.f32.bf16.bf16.f32", does::multiplies(), build_mma, mma);
  t.row("mma.sync.aligned.{m16n8k4|m16n8k8}.row.col.f32.tf32.tf32.f32", does::multiplies(), build_mma, mma);
  t.row(
      "mma.sync.aligned.{m16n8k16|m16n8k32}.row.col[.kind::f8f6f4].{f16|f32}.{e4m3|e5m2}.{e4m3|e5m2}.{f16|"
      "f32}",
      does::multiplies(), build_mma, mma);
  t.row("mma.sync.aligned.{m8n8k16|m16n8k16|m16n8k32}.row.col[.satfinite].s32.{s8|u8}.{s8|u8}.s32",
        does::multiplies(), build_mma, mma);
  t.row("mma.sync.aligned.{m8n8k32|m16n8k32|m16n8k64}.row.col[.satfinite].s32.{s4|u4}.{s4|u4}.s32",
        does::multiplies(), build_mma, mma);
  t.row("mma.sync.aligned.{m8n8k128|m16n8k128|m16n8k256}.row.col.s32.b1.b1.s32.{xor|and}.popc",
        does::multiplies(), build_mma, mma);
  t.row("mma.sync.aligned.{m8n8k4|m16n8k4|m16n8k8|m16n8k16}.row.col.f64.f64.f64.f64[.rn]", does::multiplies(),
        build_mma, mma_f64);
  t.row("mma.sync.aligned.m8n8k4.{row|col}.{row|col}.{f16|f32}.f16.f16.{f16|f32}", does::multiplies(),
        build_quad_pairs, mma_quad_pairs);
}

}  // namespace

void register_matrix(Table& t) {
  t.family("Warp matrices: mma.sync", InstClass::kMatrix);
  register_mma(t);
  register_sparse_mma(t);
  t.family("Warp matrices: ldmatrix, stmatrix, movmatrix", InstClass::kShared);
  t.row("ldmatrix.sync.aligned.m8n8.{x1|x2|x4}[.trans][.shared|.shared::cta].b16", does::moves_rows(true),
        build_move, load);
  t.row("ldmatrix.sync.aligned.{x1|x2|x4}[.trans].m8n8[.shared|.shared::cta].b16", does::moves_rows(true),
        build_move,
        load);  // CUTLASS's spelling
  t.row("ldmatrix.sync.aligned.m16n16.{x1|x2}.trans[.shared|.shared::cta].b8", does::moves_rows(true),
        build_move, load);
  t.row("ldmatrix.sync.aligned.m16n16.{x1|x2}.trans[.shared|.shared::cta].b8x16.{b6x16_p32|b4x16_p64}",
        does::moves_rows(true), build_move, load);
  t.row("ldmatrix.sync.aligned.m8n16.{x1|x2|x4}[.shared|.shared::cta].b8x16.{b6x16_p32|b4x16_p64}",
        does::moves_rows(true), build_move, load);
  t.row("stmatrix.sync.aligned.m8n8.{x1|x2|x4}[.trans][.shared|.shared::cta].b16", does::moves_rows(false),
        build_move, store);
  t.row("stmatrix.sync.aligned.{x1|x2|x4}[.trans].m8n8[.shared|.shared::cta].b16", does::moves_rows(false),
        build_move, store);
  t.row("stmatrix.sync.aligned.m16n8.{x1|x2|x4}.trans[.shared|.shared::cta].b8", does::moves_rows(false),
        build_move, store);
  t.row("movmatrix.sync.aligned.m8n8.trans.b16", does::computes(Cost::kShuffle, TaintRule::kWarpWide),
        build_transpose, transpose);
}

}  // namespace sglab::emu
