#include "bindings/timing.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "timing/trace.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::emu::timing {
namespace {

// The dict's arrays outlive the spans: the caller holds it.
template <class T>
void column(const nb::dict& table, const char* name, std::span<const T>& out) {
  const auto array = nb::cast<nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(table[name]);
  out = {array.data(), array.size()};
}

template <class T>
nb::object array(std::vector<T> values) {
  auto* const held = new std::vector<T>(std::move(values));
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(held->data(), {held->size()}, owner));
}

void read_tables(const nb::dict& tables, Trace& t) {
  const auto runs = nb::cast<nb::dict>(tables["runs"]);
  column(runs, "cta", t.runs.cta);
  column(runs, "warp", t.runs.warp);
  column(runs, "first", t.runs.first);
  column(runs, "length", t.runs.length);
  column(runs, "times", t.runs.times);
  column(runs, "shown", t.runs.shown);
  const auto accesses = nb::cast<nb::dict>(tables["accesses"]);
  column(accesses, "event", t.accesses.event);
  column(accesses, "address", t.accesses.address);
  column(accesses, "span", t.accesses.span);
  column(accesses, "nbytes", t.accesses.bytes);
  column(accesses, "lanes", t.accesses.lanes);
  column(accesses, "sectors", t.accesses.sectors);
  column(accesses, "lines", t.accesses.lines);
  column(accesses, "wavefronts", t.accesses.wavefronts);
  column(accesses, "space", t.accesses.space);
  column(accesses, "kind", t.accesses.kind);
  const auto barriers = nb::cast<nb::dict>(tables["barriers"]);
  column(barriers, "event", t.barriers.event);
  column(barriers, "passed", t.barriers.passed);
  column(barriers, "object", t.barriers.object);
  column(barriers, "kind", t.barriers.kind);
  const auto phases = nb::cast<nb::dict>(tables["phases"]);
  column(phases, "position", t.phases.position);
  column(phases, "event", t.phases.event);
  column(phases, "cta", t.phases.cta);
  column(phases, "object", t.phases.object);
  column(phases, "kind", t.phases.kind);
  column(phases, "asynchronous", t.phases.asynchronous);
  const auto copies = nb::cast<nb::dict>(tables["copies"]);
  column(copies, "event", t.copies.event);
  column(copies, "done", t.copies.done);
  column(copies, "mbarrier", t.copies.mbarrier);
  column(copies, "nbytes", t.copies.bytes);
  column(copies, "multicast", t.copies.multicast);
  column(copies, "kind", t.copies.kind);
  column(copies, "address", t.copies.address);
  column(copies, "rows", t.copies.rows);
  column(copies, "row_bytes", t.copies.row_bytes);
  column(copies, "pitch", t.copies.pitch);
  const auto tcgen05 = nb::cast<nb::dict>(tables["tcgen05"]);
  column(tcgen05, "event", t.tcgen05.event);
  column(tcgen05, "busy", t.tcgen05.busy);
  column(tcgen05, "latency", t.tcgen05.latency);
  column(tcgen05, "cta_group", t.tcgen05.cta_group);
  const auto ctas = nb::cast<nb::dict>(tables["ctas"]);
  column(ctas, "cluster", t.cluster_of);
  column(ctas, "rank", t.rank_of);
  column(ctas, "placement", t.placement);
}

void read_costs(const nb::dict& costs, Trace& t) {
  std::span<const std::uint8_t> action, unit, group, cached, streaming, read_only, order;
  std::span<const std::int32_t> argument;
  std::span<const float> slots, busy, latency, turn;
  column(costs, "action", action);
  column(costs, "unit", unit);
  column(costs, "group", group);
  column(costs, "cached", cached);
  column(costs, "streaming", streaming);
  column(costs, "read_only", read_only);
  column(costs, "order", order);
  column(costs, "argument", argument);
  column(costs, "slots", slots);
  column(costs, "busy", busy);
  column(costs, "latency", latency);
  column(costs, "turn", turn);
  for (std::size_t i = 0; i < action.size(); ++i) {
    t.costs.push_back({static_cast<Action>(action[i]), static_cast<Unit>(unit[i]),
                       static_cast<Group>(group[i]), cached[i] != 0, streaming[i] != 0, read_only[i] != 0,
                       order[i], argument[i], slots[i], busy[i], latency[i], turn[i]});
  }
}

void read_mentions(const nb::dict& mentions, Trace& t) {
  std::span<const std::uint32_t> pc;
  std::span<const std::uint16_t> slot;
  std::span<const std::uint8_t> definition;
  column(mentions, "pc", pc);
  column(mentions, "slot", slot);
  column(mentions, "definition", definition);
  for (std::size_t i = 0; i < pc.size(); ++i) {
    t.mentions.push_back({pc[i], slot[i], definition[i] != 0});
    t.slots = std::max(t.slots, slot[i] + 1u);
  }
}

Machine read_machine(const nb::dict& figures) {
  Machine m{};
  m.sms = nb::cast<std::uint32_t>(figures["sms"]);
  m.l2_slices = nb::cast<std::uint32_t>(figures["l2_slices"]);
  m.warm = nb::cast<bool>(figures["warm"]);
  const std::pair<const char*, double Machine::*> fields[] = {
      {"launch", &Machine::launch},
      {"launch_all", &Machine::launch_all},
      {"cold_start", &Machine::cold_start},
      {"cta_start", &Machine::cta_start},
      {"cta_interval", &Machine::cta_interval},
      {"translation", &Machine::translation},
      {"branch", &Machine::branch},
      {"predicate", &Machine::predicate},
      {"code_capacity", &Machine::code_capacity},
      {"code_rate", &Machine::code_rate},
      {"l1_latency", &Machine::l1_latency},
      {"l2_latency", &Machine::l2_latency},
      {"hbm_latency", &Machine::hbm_latency},
      {"atomic_latency", &Machine::atomic_latency},
      {"load_port", &Machine::load_port},
      {"load_rate", &Machine::load_rate},
      {"l2_lines", &Machine::l2_lines},
      {"store_rate", &Machine::store_rate},
      {"store_line", &Machine::store_line},
      {"first_load", &Machine::first_load},
      {"atomic_turn", &Machine::atomic_turn},
      {"atomic_sector", &Machine::atomic_sector},
      {"atomic_port", &Machine::atomic_port},
      {"atomic_queue", &Machine::atomic_queue},
      {"atomic_rate", &Machine::atomic_rate},
      {"hbm_rate", &Machine::hbm_rate},
      {"l1_capacity", &Machine::l1_capacity},
      {"l2_capacity", &Machine::l2_capacity},
      {"copy_latency", &Machine::copy_latency},
      {"tensor_copy_latency", &Machine::tensor_copy_latency},
      {"copy_port", &Machine::copy_port},
      {"copy_rate", &Machine::copy_rate},
      {"same_copy_rate", &Machine::same_copy_rate},
      {"copy_store_port", &Machine::copy_store_port},
      {"copy_store_latency", &Machine::copy_store_latency},
      {"cp_async_latency", &Machine::cp_async_latency},
      {"barrier_latency", &Machine::barrier_latency},
      {"barrier_arrive", &Machine::barrier_arrive},
      {"mbarrier_latency", &Machine::mbarrier_latency},
      {"cluster_latency", &Machine::cluster_latency},
      {"remote_latency", &Machine::remote_latency},
  };
  for (const auto& [name, field] : fields) m.*field = nb::cast<double>(figures[name]);
  return m;
}

nb::dict time_launch(const nb::dict& tables, const nb::dict& costs, const nb::dict& mentions,
                     const nb::dict& launch, const nb::dict& figures) {
  Trace trace;
  read_tables(tables, trace);
  read_costs(costs, trace);
  read_mentions(mentions, trace);
  trace.warps_per_cta = nb::cast<std::uint32_t>(launch["warps_per_cta"]);
  trace.cluster_size = nb::cast<std::uint32_t>(launch["cluster_size"]);
  trace.ctas_per_sm = nb::cast<std::uint32_t>(launch["ctas_per_sm"]);
  trace.shared_bytes = nb::cast<std::uint32_t>(launch["shared_bytes"]);
  trace.registers = nb::cast<std::uint32_t>(launch["registers"]);
  const Machine machine = read_machine(figures);
  Times times;
  {
    const nb::gil_scoped_release release;
    times = simulate(trace, machine);
  }
  nb::dict out;
  out["issue"] = array(std::move(times.issue));
  out["end"] = array(std::move(times.end));
  out["stall"] = array(std::move(times.stall));
  out["stalled"] = array(std::move(times.stalled));
  out["copy_start"] = array(std::move(times.copy_start));
  out["copy_end"] = array(std::move(times.copy_end));
  out["tcgen05_start"] = array(std::move(times.tcgen05_start));
  out["tcgen05_end"] = array(std::move(times.tcgen05_end));
  out["phase"] = array(std::move(times.phase));
  out["cta_start"] = array(std::move(times.cta_start));
  out["cta_end"] = array(std::move(times.cta_end));
  out["cta_sm"] = array(std::move(times.cta_sm));
  out["total"] = times.total;
  out["bytes_l2"] = times.bytes_l2;
  out["bytes_hbm"] = times.bytes_hbm;
  out["forced"] = times.forced;
  return out;
}

}  // namespace
}  // namespace sglab::emu::timing

void sglab::bindings::register_timing(nb::module_& module) {
  module.def("time_launch", emu::timing::time_launch, "tables"_a, "costs"_a, "mentions"_a, "launch"_a,
             "figures"_a, "Replays an event log on a model of a GPU; see sglab.events.timing.");
}
