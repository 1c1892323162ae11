#include "cpu/features.hpp"
#include "machine/ops/register.hpp"
#include "machine/ops/tensor_families.hpp"

namespace sglab::emu {
namespace {

#define SGLAB_REGISTER_FAMILIES(isa)      \
  do {                                    \
    isa::register_support(table.support); \
    isa::register_integer(table);         \
    isa::register_bits(table);            \
    isa::register_float(table);           \
    isa::register_half(table);            \
    isa::register_compare(table);         \
    isa::register_convert(table);         \
    isa::register_move(table);            \
    isa::register_memory(table);          \
  } while (false)

Table build() {
  Table table;
  switch (cpu::active_isa()) {
#if defined(__x86_64__) && !defined(SGLAB_BASELINE_ONLY)
    case cpu::Isa::kAvx512:
      SGLAB_REGISTER_FAMILIES(avx512);
      break;
    case cpu::Isa::kAvx2:
      SGLAB_REGISTER_FAMILIES(avx2);
      break;
#endif
    default:
      SGLAB_REGISTER_FAMILIES(baseline);
      break;
  }
  register_control(table);
  register_special(table.support);
  register_address_windows(table);
  register_fences(table);
  register_warp(table);
  register_barriers(table);
  register_atomics(table);
  register_mbarrier(table);
  register_cp_async(table);
  register_bulk_copy(table);
  register_tensor_copy(table);
  register_tensor_maps(table);
  register_matrix(table);
  register_wgmma(table);
  register_tensor_memory(table);
  register_tcgen05(table);
  register_wmma(table);
  register_cluster_launch(table);
  return table;
}

}  // namespace

const Table& instruction_table() {
  static const Table table = build();
  return table;
}

}  // namespace sglab::emu
