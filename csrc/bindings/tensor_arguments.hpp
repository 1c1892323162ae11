#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "machine/tensor/instruction_descriptor.hpp"
#include "machine/tensor/operand.hpp"
#include "machine/tensor/tmem.hpp"

// What the tensor operations take from Python: plain arrays and names.
namespace sglab::bindings {

using Bytes = nanobind::ndarray<std::uint8_t, nanobind::c_contig, nanobind::device::cpu>;
using Words = nanobind::ndarray<std::uint32_t, nanobind::c_contig, nanobind::device::cpu>;
using Doubles = nanobind::ndarray<double, nanobind::c_contig, nanobind::device::cpu>;

inline emu::SmemView view(const Bytes& bytes) {
  return {bytes.data(), bytes.size()};
}

emu::MmaKind kind_of(const std::string& name);

// Tensor memory as a (512, 128) uint32 array: [column][lane].
void require_tmem(const Words& cells);
void import_tmem(emu::TensorMemory& tmem, const Words& cells);
void export_tmem(const emu::TensorMemory& tmem, Words& cells);

void register_descriptors(nanobind::module_& tensor);
void register_tensor_memory(nanobind::module_& tensor);

}  // namespace sglab::bindings
