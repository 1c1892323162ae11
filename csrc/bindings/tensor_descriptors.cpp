#include <stdexcept>
#include <vector>

#include "bindings/tensor_arguments.hpp"
#include "machine/tensor/datapath.hpp"
#include "machine/tensor/smem_descriptor.hpp"
#include "machine/tensor/tcgen05_mma.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {
namespace {

using namespace sglab::emu;

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

nb::list datapath(int m, int n, int cta_group, bool weight_stationary, bool sparse) {
  const DatapathLayout layout = datapath_layout(m, n, cta_group, weight_stationary, sparse);
  nb::list out;
  for (int i = 0; i < layout.block_count; ++i) {
    const DatapathBlock& b = layout.blocks[i];
    out.append(nb::make_tuple(b.cta, b.lane, b.row, b.rows, b.column, b.columns));
  }
  return out;
}

}  // namespace

void register_descriptors(nb::module_& m) {
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
}

}  // namespace sglab::bindings
