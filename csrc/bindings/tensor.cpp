#include "bindings/tensor.hpp"

#include <stdexcept>

#include "bindings/tensor_arguments.hpp"
#include "machine/tensor/fragments.hpp"
#include "machine/tensor/matrix_move.hpp"
#include "machine/tensor/tcgen05_mma.hpp"
#include "machine/tensor/wgmma.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {

using namespace sglab::emu;

MmaKind kind_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(MmaKind::kMxf4nvf4); ++i) {
    if (mma_kind_name(static_cast<MmaKind>(i)) == name) return static_cast<MmaKind>(i);
  }
  throw std::invalid_argument("unknown tcgen05.mma kind '" + name + "'");
}

namespace {

ElementType element_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(ElementType::kS32); ++i) {
    if (element_name(static_cast<ElementType>(i)) == name) return static_cast<ElementType>(i);
  }
  throw std::invalid_argument("unknown element type '" + name + "'");
}

void tcgen05_mma(const std::string& kind, std::uint32_t idesc, std::vector<Bytes> smem,
                 std::vector<Words> tmem, std::uint32_t d, std::optional<std::uint64_t> a_desc,
                 std::uint32_t a_tmem, std::uint64_t b_desc, bool enable_input_d, int scale_input_d,
                 bool weight_stationary, std::vector<std::uint32_t> disabled, std::uint64_t zero_columns,
                 std::uint32_t scale_a, std::uint32_t scale_b, int scale_block, std::uint32_t metadata,
                 bool shift_a) {
  Tcgen05Mma mma;
  mma.descriptor = decode_instruction_descriptor(kind_of(kind), idesc);
  mma.cta_group = static_cast<int>(smem.size());
  if (tmem.size() != smem.size() || smem.empty() || smem.size() > 2) {
    throw std::invalid_argument("smem and tmem must hold one or two CTAs each");
  }
  const std::string wrong = check_mma_shape(mma.descriptor, mma.cta_group, weight_stationary);
  if (!wrong.empty()) throw std::invalid_argument(wrong);
  mma.weight_stationary = weight_stationary;
  mma.d = TmemAddress::decode(d);
  if (a_desc) mma.a_smem = decode_tcgen05_descriptor(*a_desc);
  mma.a_tmem = TmemAddress::decode(a_tmem);
  mma.shift_a = shift_a;
  mma.b_smem = decode_tcgen05_descriptor(b_desc);
  mma.enable_input_d = enable_input_d;
  mma.scale_input_d = scale_input_d;
  for (std::size_t i = 0; i < disabled.size() && i < 8; ++i) mma.disabled_lanes[i] = disabled[i];
  mma.zero_columns = decode_zero_column_mask(zero_columns, mma.descriptor.m, mma.descriptor.n);
  mma.scale_a = TmemAddress::decode(scale_a);
  mma.scale_b = TmemAddress::decode(scale_b);
  mma.scale_block = scale_block;
  mma.sparsity_metadata = TmemAddress::decode(metadata);
  std::vector<TensorMemory> memories(tmem.size());
  std::vector<MmaCta> ctas;
  for (std::size_t i = 0; i < tmem.size(); ++i) {
    require_tmem(tmem[i]);
    import_tmem(memories[i], tmem[i]);
    ctas.push_back({view(smem[i]), &memories[i]});
  }
  check_mma_cells(mma);
  run_tcgen05_mma(mma, ctas);
  for (std::size_t i = 0; i < tmem.size(); ++i) export_tmem(memories[i], tmem[i]);
}

void wgmma(Bytes smem, Words registers, int n, int k, const std::string& a_type, const std::string& b_type,
           const std::string& d_type, std::optional<std::uint64_t> a_desc, std::optional<Words> a_registers,
           std::uint64_t b_desc, bool a_mn_major, bool b_mn_major, bool negate_a, bool negate_b, bool scale_d,
           bool saturate) {
  Wgmma op{n, k, element_of(a_type), element_of(b_type), element_of(d_type)};
  op.a_major = a_mn_major ? Major::kMn : Major::kK;
  op.b_major = b_mn_major ? Major::kMn : Major::kK;
  op.negate_a = negate_a;
  op.negate_b = negate_b;
  op.scale_d = scale_d;
  op.saturate = saturate;
  op.b_smem = decode_wgmma_descriptor(b_desc);
  if (a_desc) op.a_smem = decode_wgmma_descriptor(*a_desc);
  if (!a_desc && !a_registers) throw std::invalid_argument("wgmma needs a_desc or a_registers");
  WgmmaAccumulators sums(op.d_type, n);
  const std::size_t per_warp = 32 * static_cast<std::size_t>(WgmmaAccumulators::registers(op.d_type, n));
  if (registers.size() != 4 * per_warp) throw std::invalid_argument("registers must be [4][registers][32]");
  std::array<const std::uint32_t*, 4> a{};
  for (int warp = 0; warp < 4; ++warp) {
    sums.load_warp(warp, registers.data() + warp * per_warp);
    if (a_registers) a[warp] = a_registers->data() + warp * (a_registers->size() / 4);
  }
  sums.multiply(op, view(smem), a);
  for (int warp = 0; warp < 4; ++warp) sums.store_warp(warp, registers.data() + warp * per_warp);
}

void warp_mma(int m, int k, const std::string& a_type, const std::string& b_type, const std::string& c_type,
              const std::string& d_type, Words a, Words b, Words c, Words d, bool saturate,
              const std::string& bit_op) {
  WarpMma op{m, k, element_of(a_type), element_of(b_type), element_of(c_type), element_of(d_type), saturate};
  if (bit_op == "xor") op.bit_op = WarpMma::BitOp::kXor;
  if (bit_op == "and") op.bit_op = WarpMma::BitOp::kAnd;
  run_warp_mma(op, a.data(), b.data(), c.data(), d.data());
}

MatrixMove move_of(const std::string& shape, int count, bool transposed, const std::string& format) {
  MatrixMove move{MatrixShape::k8x8B16, count, transposed};
  if (shape == "m16n16") move.shape = MatrixShape::k16x16B8;
  if (shape == "m8n16") move.shape = MatrixShape::k8x16B8;
  if (shape == "m16n8") move.shape = MatrixShape::k16x8B8;
  if (format == "b4x16_p64") move.format = CopyFormat::kB4x16P64;
  if (format == "b6x16_p32") move.format = CopyFormat::kB6x16P32;
  return move;
}

// `rows` is (row count, 16) bytes; registers (count, 32).
void ldmatrix(Bytes rows, Words registers, const std::string& shape, int count, bool transposed,
              const std::string& format) {
  const std::uint8_t* pointers[32];
  for (int i = 0; i < 32; ++i) pointers[i] = rows.data() + 16 * i;
  load_matrices(move_of(shape, count, transposed, format), pointers, registers.data());
}

void stmatrix(Bytes rows, Words registers, const std::string& shape, int count, bool transposed) {
  std::uint8_t* pointers[32];
  for (int i = 0; i < 32; ++i) pointers[i] = rows.data() + 16 * i;
  store_matrices(move_of(shape, count, transposed, ""), pointers, registers.data());
}

}  // namespace

void register_tensor(nb::module_& module) {
  nb::module_ m = module.def_submodule("tensor", "Tensor-core operations on plain arrays.");
  m.def(
      "decode_element",
      [](const std::string& type, std::uint32_t raw) { return decode_element(element_of(type), raw); },
      "type"_a, "raw"_a);
  m.def(
      "encode_element",
      [](const std::string& type, float value, bool saturate) {
        return encode_element(element_of(type), value, saturate);
      },
      "type"_a, "value"_a, "saturate"_a = false);
  m.def("tcgen05_mma", &tcgen05_mma, "kind"_a, "idesc"_a, "smem"_a, "tmem"_a, "d"_a, "a_desc"_a = nb::none(),
        "a_tmem"_a = 0, "b_desc"_a, "enable_input_d"_a = true, "scale_input_d"_a = 0,
        "weight_stationary"_a = false, "disabled_lanes"_a = std::vector<std::uint32_t>{},
        "zero_columns"_a = 0, "scale_a"_a = 0, "scale_b"_a = 0, "scale_block"_a = 32, "metadata"_a = 0,
        "shift_a"_a = false);
  m.def("wgmma", &wgmma, "smem"_a, "registers"_a, "n"_a, "k"_a, "a_type"_a, "b_type"_a, "d_type"_a,
        "a_desc"_a = nb::none(), "a_registers"_a = nb::none(), "b_desc"_a, "a_mn_major"_a = false,
        "b_mn_major"_a = false, "negate_a"_a = false, "negate_b"_a = false, "scale_d"_a = true,
        "saturate"_a = false);
  m.def("warp_mma", &warp_mma, "m"_a, "k"_a, "a_type"_a, "b_type"_a, "c_type"_a, "d_type"_a, "a"_a, "b"_a,
        "c"_a, "d"_a, "saturate"_a = false, "bit_op"_a = "");
  m.def(
      "warp_mma_f64",
      [](int rows, int k, Doubles a, Doubles b, Doubles c, Doubles d) {
        run_warp_mma_f64(rows, k, a.data(), b.data(), c.data(), d.data());
      },
      "m"_a, "k"_a, "a"_a, "b"_a, "c"_a, "d"_a);
  m.def("ldmatrix", &ldmatrix, "rows"_a, "registers"_a, "shape"_a, "count"_a, "transposed"_a = false,
        "format"_a = "");
  m.def("stmatrix", &stmatrix, "rows"_a, "registers"_a, "shape"_a, "count"_a, "transposed"_a = false);
  m.def(
      "movmatrix", [](Words source, Words target) { transpose_matrix(source.data(), target.data()); },
      "source"_a, "target"_a);
  register_descriptors(m);
  register_tensor_memory(m);
}

}  // namespace sglab::bindings
