#pragma once

#include "isa/table.hpp"

namespace sglab::emu {

// Families compiled once.
void register_control(Table& table);
void register_calls(Table& table);
void build_exit(Builder& builder);  // exit, and ret in a kernel
void register_special(Support& support);
void register_address_windows(Table& table);
void register_fences(Table& table);
void register_warp(Table& table);
void register_barriers(Table& table);
void register_atomics(Table& table);

// Families compiled once per instruction set.
#define SGLAB_DECLARE_FAMILIES(isa)                   \
  namespace isa {                                     \
  void register_support(Support& support);            \
  void register_integer(Table& table);                \
  void register_bits(Table& table);                   \
  void register_float(Table& table);                  \
  void register_double(Table& table);                 \
  void register_elementary(Table& table);             \
  void register_extremes(Table& table);               \
  void register_float_bits(Table& table);             \
  void register_half(Table& table);                   \
  void register_compare(Table& table);                \
  void register_selection(Table& table);              \
  void register_convert(Table& table);                \
  void register_packed_conversions(Table& table);     \
  void register_stochastic_conversions(Table& table); \
  void register_move(Table& table);                   \
  void register_memory(Table& table);                 \
  void register_multimem(Table& table);               \
  }
SGLAB_DECLARE_FAMILIES(baseline)
#if defined(__x86_64__)
SGLAB_DECLARE_FAMILIES(avx2)
SGLAB_DECLARE_FAMILIES(avx512)
#endif
#undef SGLAB_DECLARE_FAMILIES

}  // namespace sglab::emu
