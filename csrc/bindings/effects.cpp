#include "bindings/effects.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "isa/table.hpp"
#include "machine/ops/mma_operands.hpp"
#include "machine/program/program.hpp"
#include "machine/tensor/element.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::emu {
namespace {

const char* group_name(const Effects& e) {
  constexpr const char* kNames[] = {"bulk", "cp.async", "wgmma"};
  const bool groups = e.act == Act::kCommitGroup || e.act == Act::kWaitGroup;
  return groups ? kNames[static_cast<std::size_t>(e.group)] : "";
}

// (family, pattern, effects) of every row.
std::vector<std::tuple<std::string, std::string, Effects>> forms() {
  std::vector<std::tuple<std::string, std::string, Effects>> rows;
  for (const Row& row : instruction_table().rows()) rows.emplace_back(row.family, row.pattern, row.effects);
  return rows;
}

nb::object effects_of(const std::string& mnemonic) {
  const Form form = instruction_table().match(mnemonic);
  return form.row == nullptr ? nb::none() : nb::cast(form.effects);
}

}  // namespace
}  // namespace sglab::emu

nb::dict sglab::bindings::multiplications(const emu::Program& program) {
  using namespace sglab::emu;
  nb::dict found;
  const auto add = [&](std::size_t pc, const char* kind, int m, int n, int k, ElementType a, ElementType b,
                       ElementType d, bool registers) {
    const auto name = [](ElementType type) { return std::string(element_name(type)); };
    found[nb::int_(pc)] = nb::make_tuple(kind, m, n, k, name(a), name(b), name(d), registers);
  };
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    const Inst* const inst = &program.code[pc];
    if (program.effects[pc].cost == Cost::kMma) {
      const WarpMma& form = payload<MmaOperands>(inst).mma;
      add(pc, "mma.sync", form.m, 8, form.k, form.a_type, form.b_type, form.d_type, true);
    } else if (program.effects[pc].cost == Cost::kWgmma) {
      const auto& operands = payload<WgmmaOperands>(inst);
      const Wgmma& form = operands.form;
      add(pc, "wgmma", 64, form.n, form.k, form.a_type, form.b_type, form.d_type, operands.a_registers != 0);
    }
  }
  return found;
}

void sglab::bindings::register_effects(nb::module_& module) {
  using namespace sglab::emu;
  nb::class_<Effects>(module, "Effects", "What an instruction does; see csrc/isa/effects.hpp.")
      .def_prop_ro("act", [](const Effects& e) { return act_name(e.act); })
      .def_prop_ro("event", [](const Effects& e) { return event_name(e.event); })
      .def_prop_ro("taint", [](const Effects& e) { return taint_name(e.taint); })
      .def_prop_ro("cost", [](const Effects& e) { return cost_name(e.cost); })
      .def_prop_ro("motion", [](const Effects& e) { return motion_bits(e); })
      .def_prop_ro("space", [](const Effects& e) { return space_name(e.space); })
      .def_prop_ro("source", [](const Effects& e) { return space_name(e.source); })
      .def_ro("reads", &Effects::reads)
      .def_ro("writes", &Effects::writes)
      .def_ro("atomic", &Effects::atomic)
      .def_ro("returns", &Effects::returns)
      .def_ro("nbytes", &Effects::bytes)
      .def_ro("rows", &Effects::rows)
      .def_ro("ordered", &Effects::ordered)
      .def_prop_ro("order", [](const Effects& e) { return order_name(e.order); })
      .def_prop_ro("scope", [](const Effects& e) { return scope_name(e.scope); })
      .def_ro("cached", &Effects::cached)
      .def_ro("streaming", &Effects::streaming)
      .def_prop_ro("group", group_name)
      .def_ro("read_only", &Effects::read_only)
      .def_prop_ro("barrier", [](const Effects& e) { return barrier_act_name(e.barrier); })
      .def_ro("exponential", &Effects::exponential)
      .def_ro("sparse", &Effects::sparse)
      .def_ro("weight_stationary", &Effects::weight_stationary)
      .def_prop_ro("to", [](const Effects& e) { return std::string(type_name(e.to)); })
      .def_prop_ro("type", [](const Effects& e) { return std::string(type_name(e.type)); })
      .def_prop_ro("element", [](const Effects& e) { return type_bytes(e.type); })
      .def_ro("cta_group", &Effects::cta_group)
      .def_ro("count", &Effects::count);
  module.def("instruction_forms", forms, "(family, pattern, effects) of every row of the instruction table.");
  module.def("instruction_effects", effects_of, "mnemonic"_a,
             "What a mnemonic's row says, settled by its modifiers; None if no row matches.");
}
