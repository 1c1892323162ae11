#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "bindings/tensor_arguments.hpp"
#include "machine/tensor/smem_descriptor.hpp"
#include "machine/tensor/tmem_transfer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {

using namespace sglab::emu;

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

namespace {

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

void register_tensor_memory(nb::module_& m) {
  m.def("tmem_load", &tmem_load_array, "cells"_a, "registers"_a, "shape"_a, "count"_a, "address"_a,
        "pack"_a = false, "half_split"_a = 0);
  m.def("tmem_store", &tmem_store_array, "cells"_a, "registers"_a, "shape"_a, "count"_a, "address"_a,
        "unpack"_a = false, "half_split"_a = 0);
  m.def("tmem_copy", &tmem_copy_array, "cells"_a, "smem"_a, "descriptor"_a, "shape"_a, "multicast"_a,
        "address"_a, "format"_a = "");
  m.def("tmem_shift", &tmem_shift_array, "cells"_a, "address"_a);
  nb::class_<TmemAllocator>(m, "TmemAllocator")
      .def(nb::init<>())
      .def("allocate", &TmemAllocator::allocate, "columns"_a)
      .def("release", &TmemAllocator::release, "column"_a, "columns"_a)
      .def("relinquish", &TmemAllocator::relinquish)
      .def_prop_ro("anything_allocated", &TmemAllocator::anything_allocated);
}

}  // namespace sglab::bindings
