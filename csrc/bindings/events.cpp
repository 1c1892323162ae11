#include "bindings/events.hpp"

#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace nb = nanobind;

namespace sglab::emu {
namespace {

template <class T>
nb::object array(std::vector<T> values) {
  auto* const held = new std::vector<T>(std::move(values));
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(held->data(), {held->size()}, owner));
}

template <class Row, class T>
nb::object column(const std::vector<Row>& rows, T Row::* field) {
  std::vector<T> values;
  values.reserve(rows.size());
  for (const Row& row : rows) values.push_back(row.*field);
  return array(std::move(values));
}

nb::dict event_rows(const Program& program, const EventLog& log) {
  std::vector<std::uint32_t> cta, warp, pc, mask;
  std::size_t most = 0;
  for (const EventLog::Run& run : log.runs) most += run.end - run.begin;
  for (std::vector<std::uint32_t>* const values : {&cta, &warp, &pc, &mask}) values->reserve(most);
  for (const EventLog::Run& run : log.runs) {
    for (std::uint32_t at = run.begin; at < run.end; ++at) {
      if (program.places[at].line == 0) continue;
      cta.push_back(run.cta);
      warp.push_back(run.warp);
      pc.push_back(at);
      mask.push_back(run.mask);
    }
  }
  nb::dict columns;
  columns["cta"] = array(std::move(cta));
  columns["warp"] = array(std::move(warp));
  columns["pc"] = array(std::move(pc));
  columns["mask"] = array(std::move(mask));
  return columns;
}

}  // namespace
}  // namespace sglab::emu

nb::dict sglab::bindings::event_columns(const emu::Program& program, const emu::EventLog& log) {
  using sglab::emu::EventLog;
  using namespace sglab::emu;
  nb::dict accesses, barriers, waits, all;
  accesses["event"] = column(log.accesses, &EventLog::Access::event);
  accesses["address"] = column(log.accesses, &EventLog::Access::address);
  accesses["span"] = column(log.accesses, &EventLog::Access::span);
  accesses["nbytes"] = column(log.accesses, &EventLog::Access::bytes);
  accesses["lanes"] = column(log.accesses, &EventLog::Access::lanes);
  accesses["space"] = column(log.accesses, &EventLog::Access::space);
  accesses["kind"] = column(log.accesses, &EventLog::Access::kind);
  barriers["event"] = column(log.barriers, &EventLog::Barrier::event);
  barriers["phase"] = column(log.barriers, &EventLog::Barrier::phase);
  barriers["object"] = column(log.barriers, &EventLog::Barrier::object);
  barriers["kind"] = column(log.barriers, &EventLog::Barrier::kind);
  waits["event"] = column(log.waits, &EventLog::Wait::event);
  waits["since"] = column(log.waits, &EventLog::Wait::from);
  all["events"] = event_rows(program, log);
  all["accesses"] = accesses;
  all["barriers"] = barriers;
  all["waits"] = waits;
  return all;
}
