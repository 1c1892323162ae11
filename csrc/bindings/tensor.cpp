#include "bindings/tensor.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "machine/tensor/fragments.hpp"
#include "machine/tensor/matrix_move.hpp"
#include "machine/tensor/tcgen05_mma.hpp"
#include "machine/tensor/tmem_transfer.hpp"
#include "machine/tensor/wgmma.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {
namespace {

using namespace sglab::emu;

using Bytes = nb::ndarray<std::uint8_t, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<std::uint32_t, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

ElementType element_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(ElementType::kS32); ++i) {
    if (element_name(static_cast<ElementType>(i)) == name) return static_cast<ElementType>(i);
  }
  throw std::invalid_argument("unknown element type '" + name + "'");
}

MmaKind kind_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(MmaKind::kMxf4nvf4); ++i) {
    if (mma_kind_name(static_cast<MmaKind>(i)) == name) return static_cast<MmaKind>(i);
  }
  throw std::invalid_argument("unknown tcgen05.mma kind '" + name + "'");
}

const char* major_name(Major major) {
  return major == Major::kK ? "K" : "MN";
}

SmemDescriptor descriptor_of(std::uint64_t bits, const std::string& flavour) {
  if (flavour == "tcgen05") return decode_tcgen05_descriptor(bits);
  if (flavour == "wgmma") return decode_wgmma_descriptor(bits);
  throw std::invalid_argument("flavour must be 'tcgen05' or 'wgmma', not '" + flavour + "'");
}

nb::dict smem_descriptor(std::uint64_t bits, const std::string& flavour) {
  const SmemDescriptor d = descriptor_of(bits, flavour);
  nb::dict out;
  out["start"] = d.start;
  out["leading_offset"] = d.leading_offset;
  out["stride_offset"] = d.stride_offset;
  out["base_offset"] = d.base_offset;
  out["leading_is_absolute"] = d.leading_is_absolute;
  out["swizzle"] = std::string(swizzle_name(d.swizzle));
  return out;
}

// [rows][chunks]
nb::object chunk_addresses(std::uint64_t bits, bool mn_major, std::uint32_t rows, std::uint32_t chunks,
                           const std::string& flavour) {
  const ChunkAddress address(descriptor_of(bits, flavour), mn_major ? Major::kMn : Major::kK);
  auto* const held = new std::vector<std::int64_t>;
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) held->push_back(address(row, chunk));
  }
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>>(held->data(), {rows, chunks}, owner));
}

nb::dict instruction_descriptor(const std::string& kind, std::uint32_t bits) {
  const InstructionDescriptor d = decode_instruction_descriptor(kind_of(kind), bits);
  nb::dict out;
  out["kind"] = kind;
  out["m"] = d.m;
  out["n"] = d.n;
  out["k"] = d.k;
  out["a_type"] = std::string(element_name(d.a_type));
  out["b_type"] = std::string(element_name(d.b_type));
  out["d_type"] = std::string(element_name(d.d_type));
  out["a_major"] = major_name(d.a_major);
  out["b_major"] = major_name(d.b_major);
  out["negate_a"] = d.negate_a;
  out["negate_b"] = d.negate_b;
  out["saturate"] = d.saturate;
  out["sparse"] = d.sparse;
  out["sparsity_selector"] = d.sparsity_selector;
  out["scale_type"] = std::string(element_name(d.scale_type));
  out["a_scale_id"] = d.a_scale_id;
  out["b_scale_id"] = d.b_scale_id;
  out["max_shift"] = d.max_shift;
  return out;
}

// Tensor memory as a (512, 128) uint32 array: [column][lane].
void import_tmem(TensorMemory& tmem, const Words& cells) {
  std::copy_n(cells.data(), TensorMemory::kColumns * TensorMemory::kLanes, tmem.column(0));
}
void export_tmem(const TensorMemory& tmem, Words& cells) {
  std::copy_n(tmem.column(0), TensorMemory::kColumns * TensorMemory::kLanes, cells.data());
}

void require_tmem(const Words& cells) {
  if (cells.size() != std::size_t{TensorMemory::kColumns} * TensorMemory::kLanes) {
    throw std::invalid_argument("tensor memory must be a (512, 128) uint32 array");
  }
}

SmemView view(const Bytes& bytes) {
  return {bytes.data(), bytes.size()};
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

LdStForm form_of(const std::string& shape, int count, bool sixteen_bit, int half_split) {
  const auto parsed = parse_ld_st_shape(shape);
  if (!parsed) throw std::invalid_argument("unknown tcgen05.ld/st shape '" + shape + "'");
  return {*parsed, count, sixteen_bit, half_split};
}

void tmem_load_array(Words cells, Words registers, const std::string& shape, int count, std::uint32_t address,
                     bool pack, int half_split) {
  require_tmem(cells);
  TensorMemory tmem;
  import_tmem(tmem, cells);
  tmem_load(tmem, form_of(shape, count, pack, half_split), TmemAddress::decode(address), registers.data());
}

void tmem_store_array(Words cells, Words registers, const std::string& shape, int count,
                      std::uint32_t address, bool unpack, int half_split) {
  require_tmem(cells);
  TensorMemory tmem;
  import_tmem(tmem, cells);
  tmem_store(tmem, form_of(shape, count, unpack, half_split), TmemAddress::decode(address), registers.data());
  export_tmem(tmem, cells);
}

void tmem_copy_array(Words cells, Bytes smem, std::uint64_t descriptor, const std::string& shape,
                     const std::string& multicast, std::uint32_t address, const std::string& format) {
  require_tmem(cells);
  const auto parsed = parse_copy_shape(shape, multicast);
  if (!parsed)
    throw std::invalid_argument("tcgen05.cp has no shape '" + shape + "' with multicast '" + multicast + "'");
  const CopyFormat source = format == "b4x16_p64"   ? CopyFormat::kB4x16P64
                            : format == "b6x16_p32" ? CopyFormat::kB6x16P32
                                                    : CopyFormat::kNone;
  TensorMemory tmem;
  import_tmem(tmem, cells);
  tmem_copy(tmem, TmemAddress::decode(address), view(smem), decode_tcgen05_descriptor(descriptor), *parsed,
            source);
  export_tmem(tmem, cells);
}

void tmem_shift_array(Words cells, std::uint32_t address) {
  require_tmem(cells);
  TensorMemory tmem;
  import_tmem(tmem, cells);
  tmem_shift_down(tmem, TmemAddress::decode(address));
  export_tmem(tmem, cells);
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

nb::list datapath(int m, int n, int cta_group, bool weight_stationary, bool sparse) {
  const DatapathLayout layout = datapath_layout(m, n, cta_group, weight_stationary, sparse);
  nb::list out;
  for (int i = 0; i < layout.block_count; ++i) {
    const DatapathBlock& b = layout.blocks[i];
    out.append(nb::make_tuple(b.cta, b.lane, b.row, b.rows, b.column, b.columns));
  }
  return out;
}

// An allocator of tensor-memory columns, as tcgen05.alloc sees it.
class TmemAllocator {
 public:
  std::tuple<std::string, std::uint32_t> allocate(std::uint32_t columns) {
    const auto result = tmem_.allocate(columns);
    return {alloc_status_name(result.status), result.column};
  }
  std::string release(std::uint32_t column, std::uint32_t columns) {
    return alloc_status_name(tmem_.release(column, columns));
  }
  void relinquish() { tmem_.relinquish_permit(); }
  bool anything_allocated() const { return tmem_.anything_allocated(); }

 private:
  TensorMemory tmem_;
};

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
  m.def("smem_descriptor", &smem_descriptor, "bits"_a, "flavour"_a = "tcgen05");
  m.def("instruction_descriptor", &instruction_descriptor, "kind"_a, "bits"_a);
  m.def(
      "check_mma_shape",
      [](const std::string& kind, std::uint32_t bits, int cta_group, bool weight_stationary) {
        return check_mma_shape(decode_instruction_descriptor(kind_of(kind), bits), cta_group,
                               weight_stationary);
      },
      "kind"_a, "bits"_a, "cta_group"_a = 1, "weight_stationary"_a = false);
  m.def(
      "chunk_address",
      [](std::uint64_t bits, bool mn_major, std::uint32_t row, std::uint32_t chunk,
         const std::string& flavour) {
        return ChunkAddress(descriptor_of(bits, flavour), mn_major ? Major::kMn : Major::kK)(row, chunk);
      },
      "bits"_a, "mn_major"_a, "row"_a, "chunk"_a, "flavour"_a = "tcgen05");
  m.def("chunk_addresses", &chunk_addresses, "bits"_a, "mn_major"_a, "rows"_a, "chunks"_a,
        "flavour"_a = "tcgen05");
  m.def(
      "chunks_of_a_run",
      [](std::uint64_t bits, bool mn_major, std::uint32_t chunks, const std::string& flavour) {
        return chunks_of_a_run(descriptor_of(bits, flavour), mn_major ? Major::kMn : Major::kK, chunks);
      },
      "bits"_a, "mn_major"_a, "chunks"_a, "flavour"_a = "tcgen05");
  m.def("datapath", &datapath, "m"_a, "n"_a, "cta_group"_a = 1, "weight_stationary"_a = false,
        "sparse"_a = false);
  m.def(
      "zero_column_mask",
      [](std::uint64_t bits, int rows, int columns) {
        const auto mask = decode_zero_column_mask(bits, rows, columns);
        return std::vector<std::uint64_t>(mask.begin(), mask.end());
      },
      "bits"_a, "m"_a, "n"_a);
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
  m.def("tmem_load", &tmem_load_array, "cells"_a, "registers"_a, "shape"_a, "count"_a, "address"_a,
        "pack"_a = false, "half_split"_a = 0);
  m.def("tmem_store", &tmem_store_array, "cells"_a, "registers"_a, "shape"_a, "count"_a, "address"_a,
        "unpack"_a = false, "half_split"_a = 0);
  m.def("tmem_copy", &tmem_copy_array, "cells"_a, "smem"_a, "descriptor"_a, "shape"_a, "multicast"_a,
        "address"_a, "format"_a = "");
  m.def("tmem_shift", &tmem_shift_array, "cells"_a, "address"_a);
  m.def("ldmatrix", &ldmatrix, "rows"_a, "registers"_a, "shape"_a, "count"_a, "transposed"_a = false,
        "format"_a = "");
  m.def("stmatrix", &stmatrix, "rows"_a, "registers"_a, "shape"_a, "count"_a, "transposed"_a = false);
  m.def(
      "movmatrix", [](Words source, Words target) { transpose_matrix(source.data(), target.data()); },
      "source"_a, "target"_a);
  nb::class_<TmemAllocator>(m, "TmemAllocator")
      .def(nb::init<>())
      .def("allocate", &TmemAllocator::allocate, "columns"_a)
      .def("release", &TmemAllocator::release, "column"_a, "columns"_a)
      .def("relinquish", &TmemAllocator::relinquish)
      .def_prop_ro("anything_allocated", &TmemAllocator::anything_allocated);
}

}  // namespace sglab::bindings
