#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <stdexcept>

#include "bindings/tensor.hpp"
#include "machine/async/box_copy.hpp"
#include "machine/async/tensor_map.hpp"
#include "machine/sync/mbarrier.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {
namespace {

using namespace sglab::emu;

using Bytes = nb::ndarray<std::uint8_t, nb::c_contig, nb::device::cpu>;

TensorMapBytes bytes_of(const nb::bytes& data) {
  if (data.size() != sizeof(TensorMapBytes)) throw TensorMapError("tensor map: expected 128 bytes");
  TensorMapBytes bytes;
  std::memcpy(&bytes, data.data(), sizeof(bytes));
  return bytes;
}

nb::bytes to_bytes(const TensorMapBytes& bytes) {
  return nb::bytes(&bytes, sizeof(bytes));
}

template <typename T, std::size_t N>
void fill(std::array<T, N>& target, const std::vector<std::int64_t>& values, std::size_t offset,
          const char* name) {
  if (values.size() + offset > N)
    throw TensorMapError(std::string("tensor map: ") + name + " has too many entries");
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 ||
        static_cast<std::uint64_t>(values[i]) > static_cast<std::uint64_t>(static_cast<T>(~T{0}))) {
      throw TensorMapError(std::string("tensor map: ") + name + "[" + std::to_string(i) +
                           "] = " + std::to_string(values[i]) + " does not fit");
    }
    target[i + offset] = static_cast<T>(values[i]);
  }
}

// What cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col share, by the driver's numbers.
TensorMap common_map(int data_type, std::uint64_t address, const std::vector<std::int64_t>& global_dim,
                     const std::vector<std::int64_t>& global_strides,
                     const std::vector<std::int64_t>& element_strides, int interleave, int swizzle,
                     int l2_promotion, int oob_fill) {
  const std::size_t rank = global_dim.size();
  if (data_type < 0 || data_type > 15) throw TensorMapError("tensor map: tensorDataType must be 0 to 15");
  if (interleave < 0 || interleave > 2) throw TensorMapError("tensor map: interleave must be 0 to 2");
  if (swizzle < 0 || swizzle > 6) throw TensorMapError("tensor map: swizzle must be 0 to 6");
  if (l2_promotion < 0 || l2_promotion > 3) throw TensorMapError("tensor map: l2Promotion must be 0 to 3");
  if (oob_fill < 0 || oob_fill > 1) throw TensorMapError("tensor map: oobFill must be 0 or 1");
  if (rank < 1 || rank > 5) throw TensorMapError("tensor map: tensorRank must be 1 to 5");
  if (global_strides.size() + 1 != rank || element_strides.size() != rank) {
    throw TensorMapError("tensor map: globalStrides needs rank - 1 entries, elementStrides rank entries");
  }
  TensorMap map;
  map.global_address = address;
  map.type = static_cast<TensorMapType>(data_type);
  map.rank = static_cast<std::uint8_t>(rank);
  map.interleave = static_cast<Interleave>(interleave);
  map.swizzle = static_cast<Swizzle>(swizzle);
  map.l2_promotion = static_cast<std::uint8_t>(l2_promotion);
  map.nan_fill = oob_fill == 1;
  fill(map.global_dim, global_dim, 0, "globalDim");
  fill(map.global_stride, global_strides, 1, "globalStrides");
  fill(map.element_stride, element_strides, 0, "elementStrides");
  return map;
}

nb::bytes encode_tiled(int data_type, std::uint64_t address, const std::vector<std::int64_t>& global_dim,
                       const std::vector<std::int64_t>& global_strides,
                       const std::vector<std::int64_t>& box_dim,
                       const std::vector<std::int64_t>& element_strides, int interleave, int swizzle,
                       int l2_promotion, int oob_fill) {
  TensorMap map = common_map(data_type, address, global_dim, global_strides, element_strides, interleave,
                             swizzle, l2_promotion, oob_fill);
  if (box_dim.size() != map.rank) throw TensorMapError("tensor map: boxDim needs rank entries");
  fill(map.box_dim, box_dim, 0, "boxDim");
  return to_bytes(encode_tensor_map(map));
}

nb::bytes encode_im2col(int data_type, std::uint64_t address, const std::vector<std::int64_t>& global_dim,
                        const std::vector<std::int64_t>& global_strides,
                        const std::vector<std::int16_t>& lower_corner,
                        const std::vector<std::int16_t>& upper_corner, std::uint16_t channels_per_pixel,
                        std::uint16_t pixels_per_column, const std::vector<std::int64_t>& element_strides,
                        int interleave, int swizzle, int l2_promotion, int oob_fill,
                        std::optional<int> wide_mode) {
  TensorMap map = common_map(data_type, address, global_dim, global_strides, element_strides, interleave,
                             swizzle, l2_promotion, oob_fill);
  if (map.rank < 3) throw TensorMapError("tensor map: im2col needs a rank of 3 to 5");
  const std::size_t corners = wide_mode ? 1 : map.rank - std::size_t{2};
  if (lower_corner.size() != corners || upper_corner.size() != corners)
    throw TensorMapError(
        "tensor map: pixelBoxLowerCorner and pixelBoxUpperCorner need rank - 2 entries, wide ones a single "
        "one");
  if (wide_mode && (*wide_mode < 0 || *wide_mode > 1))
    throw TensorMapError("tensor map: mode must be 0 or 1");
  map.im2col = true;
  if (wide_mode) map.wide = *wide_mode == 0 ? Im2colWide::kW : Im2colWide::kW128;
  std::copy(lower_corner.begin(), lower_corner.end(), map.lower_corner.begin());
  std::copy(upper_corner.begin(), upper_corner.end(), map.upper_corner.begin());
  map.channels_per_pixel = channels_per_pixel;
  map.pixels_per_column = pixels_per_column;
  return to_bytes(encode_tensor_map(map));
}

nb::dict decode(const nb::bytes& data) {
  const TensorMap map = unpack_tensor_map(bytes_of(data));
  const auto list = [&map](const auto& values, int from) {
    nb::list out;
    for (int i = from; i < map.rank; ++i) out.append(values[i]);
    return out;
  };
  nb::dict out;
  out["type"] = std::string(tensor_map_type_name(map.type));
  out["address"] = map.global_address;
  out["global_dim"] = list(map.global_dim, 0);
  out["global_strides"] = list(map.global_stride, 1);
  out["box_dim"] = list(map.box_dim, 0);
  out["element_strides"] = list(map.element_stride, 0);
  out["interleave"] = static_cast<int>(map.interleave);
  out["swizzle"] = std::string(swizzle_name(map.swizzle));
  out["l2_promotion"] = map.l2_promotion;
  out["nan_fill"] = map.nan_fill;
  out["im2col"] = map.im2col;
  return out;
}

nb::bytes replace(const nb::bytes& data, const std::string& field, std::uint64_t value, int ordinal) {
  constexpr const char* kNames[] = {
      "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
      "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity",
      "fill_mode"};
  for (int i = 0; i < 11; ++i) {
    if (field != kNames[i]) continue;
    TensorMapBytes bytes = bytes_of(data);
    replace_tensor_map_field(bytes, static_cast<TensorMapField>(i), ordinal, value);
    return to_bytes(bytes);
  }
  throw TensorMapError("tensormap.replace: unknown field '" + field + "'");
}

// Global memory that is one array at a given address.
class ArrayGlobal final : public GlobalAccess {
 public:
  ArrayGlobal(std::uint64_t base, Bytes& bytes) : base_(base), data_(bytes.data()), size_(bytes.size()) {}
  const std::uint8_t* read(std::uint64_t address, std::size_t bytes) override { return at(address, bytes); }
  std::uint8_t* write(std::uint64_t address, std::size_t bytes) override { return at(address, bytes); }

 private:
  std::uint8_t* at(std::uint64_t address, std::size_t bytes) const {
    if (address < base_ || address - base_ > size_ || size_ - (address - base_) < bytes) {
      throw std::out_of_range("global access of " + std::to_string(bytes) + " bytes at " +
                              std::to_string(address));
    }
    return data_ + (address - base_);
  }
  std::uint64_t base_;
  std::uint8_t* data_;
  std::size_t size_;
};

BoxRequest request_for(const TensorMap& map, bool gather) {
  BoxRequest request;
  request.mode = gather ? BoxRequest::Mode::kGather4 : map_mode(map);
  return request;
}

void copy_box(const std::string& action, const nb::bytes& map_bytes,
              const std::vector<std::int32_t>& coordinates, Bytes global, std::uint64_t global_base,
              Bytes smem, std::uint32_t smem_base, bool gather, const std::string& op,
              const std::vector<std::uint16_t>& im2col_offsets) {
  const TensorMap map = decode_tensor_map(bytes_of(map_bytes));
  BoxRequest request = request_for(map, gather);
  if (im2col_offsets.size() > request.im2col_offsets.size())
    throw std::invalid_argument("wrong number of im2col offsets");
  std::copy(im2col_offsets.begin(), im2col_offsets.end(), request.im2col_offsets.begin());
  if (coordinates.size() != (gather ? 5u : map.rank))
    throw std::invalid_argument("wrong number of coordinates");
  std::copy(coordinates.begin(), coordinates.end(), request.coordinates.begin());
  ArrayGlobal access(global_base, global);
  const std::span<std::uint8_t> shared(smem.data(), smem.size());
  if (action == "load") return load_box(map, request, access, shared, smem_base);
  if (action == "store") return store_box(map, request, access, shared, smem_base);
  if (action == "prefetch") return prefetch_box(map, request, access);
  const auto reduce = parse_reduce_op(op);
  if (action != "reduce" || !reduce)
    throw std::invalid_argument("unknown action '" + action + "' or operation '" + op + "'");
  reduce_box(map, request, *reduce, access, shared, smem_base);
}

std::uint32_t box_size(const nb::bytes& map_bytes, bool gather, std::uint16_t halo) {
  const TensorMap map = decode_tensor_map(bytes_of(map_bytes));
  BoxRequest request = request_for(map, gather);
  request.im2col_offsets[0] = halo;
  return box_bytes(map, request);
}

// One mbarrier object; operations return the name of their status.
class MbarrierWord {
 public:
  std::string init(std::uint32_t count) { return mbarrier_status_name(mbarrier_init(word_, count)); }
  std::string inval() { return mbarrier_status_name(mbarrier_inval(word_)); }
  std::string expect_tx(std::uint32_t bytes) {
    return mbarrier_status_name(mbarrier_expect_tx(word_, bytes));
  }
  std::string complete_tx(std::uint32_t bytes) {
    return mbarrier_status_name(mbarrier_complete_tx(word_, bytes));
  }
  std::string add_pending() { return mbarrier_status_name(mbarrier_add_pending(word_)); }
  std::string arrive(std::uint32_t count, std::int64_t expect_tx, bool drop, bool no_complete) {
    ArriveOptions options{count, expect_tx >= 0, expect_tx >= 0 ? static_cast<std::uint32_t>(expect_tx) : 0,
                          drop, no_complete};
    return mbarrier_status_name(mbarrier_arrive(word_, options));
  }
  bool parity_done(bool parity) const { return mbarrier_parity_done(word_, parity); }
  bool state_done(std::uint64_t state) const { return mbarrier_state_done(word_, state); }
  std::tuple<bool, std::uint32_t, std::uint32_t, std::int32_t> fields() const {
    const Mbarrier b = Mbarrier::load(word_);
    return {b.phase, b.pending, b.expected, b.tx_count};
  }
  std::uint64_t word() const { return word_; }

 private:
  std::uint64_t word_ = 0;
};

}  // namespace

void register_tma(nb::module_& module) {
  nb::module_ m = module.def_submodule("tma", "Tensor maps, bulk copies and mbarriers on plain arrays.");
  nb::exception<TensorMapError>(m, "TensorMapError", PyExc_ValueError);
  m.def("encode_tiled", &encode_tiled, "data_type"_a, "address"_a, "global_dim"_a, "global_strides"_a,
        "box_dim"_a, "element_strides"_a, "interleave"_a = 0, "swizzle"_a = 0, "l2_promotion"_a = 0,
        "oob_fill"_a = 0);
  m.def("encode_im2col", &encode_im2col, "data_type"_a, "address"_a, "global_dim"_a, "global_strides"_a,
        "lower_corner"_a, "upper_corner"_a, "channels_per_pixel"_a, "pixels_per_column"_a,
        "element_strides"_a, "interleave"_a = 0, "swizzle"_a = 0, "l2_promotion"_a = 0, "oob_fill"_a = 0,
        "wide_mode"_a = nb::none());
  m.def("decode", &decode, "tensor_map"_a);
  m.def("replace", &replace, "tensor_map"_a, "field"_a, "value"_a, "ordinal"_a = 0);
  m.def("copy_box", &copy_box, "action"_a, "tensor_map"_a, "coordinates"_a, "global_memory"_a,
        "global_base"_a, "smem"_a, "smem_base"_a = 0, "gather"_a = false, "op"_a = "",
        "im2col_offsets"_a = std::vector<std::uint16_t>{});
  m.def("box_bytes", &box_size, "tensor_map"_a, "gather"_a = false, "halo"_a = 0);
  m.def(
      "swizzle_address",
      [](int swizzle, std::uint32_t address) {
        return swizzle_address(static_cast<Swizzle>(swizzle), address);
      },
      "swizzle"_a, "address"_a);
  nb::class_<MbarrierWord>(m, "Mbarrier")
      .def(nb::init<>())
      .def("init", &MbarrierWord::init, "count"_a)
      .def("inval", &MbarrierWord::inval)
      .def("expect_tx", &MbarrierWord::expect_tx, "bytes"_a)
      .def("complete_tx", &MbarrierWord::complete_tx, "bytes"_a)
      .def("add_pending", &MbarrierWord::add_pending)
      .def("arrive", &MbarrierWord::arrive, "count"_a = 1, "expect_tx"_a = -1, "drop"_a = false,
           "no_complete"_a = false)
      .def("parity_done", &MbarrierWord::parity_done, "parity"_a)
      .def("state_done", &MbarrierWord::state_done, "state"_a)
      .def_prop_ro("word", &MbarrierWord::word)
      .def_prop_ro("fields", &MbarrierWord::fields);
}

}  // namespace sglab::bindings
