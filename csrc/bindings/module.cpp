#include <nanobind/nanobind.h>

#include "bindings/cpu_attention.hpp"
#include "bindings/emulator.hpp"
#include "bindings/launches.hpp"
#include "bindings/moved_launches.hpp"
#include "bindings/tensor.hpp"
#include "bindings/timing.hpp"
#include "cpu/features.hpp"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.doc() = "sglab's compiled core.";
  nb::set_leak_warnings(false);  // objects that exceptions and notebooks keep until exit are no leaks
  module.def(
      "active_isa", [] { return sglab::cpu::isa_name(sglab::cpu::active_isa()); },
      "Instruction set the hot loops run with: baseline, avx2 or avx512 (SGLAB_ISA lowers it).");
  sglab::bindings::register_tensor(module);
  sglab::bindings::register_tma(module);
  sglab::bindings::register_emulator(module);
  sglab::bindings::register_timing(module);
  sglab::bindings::register_cpu_attention(module);
  sglab::bindings::register_launches(module);
  sglab::bindings::register_moved_launches(module);
}
