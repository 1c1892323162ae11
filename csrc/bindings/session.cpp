#include "bindings/session.hpp"

#include <map>
#include <utility>

#include "bindings/errors.hpp"
#include "bindings/events.hpp"
#include "bindings/py_session.hpp"
#include "observe/debug/back_search.hpp"
#include "observe/debug/inspect.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::emu {

const char* reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kReached:
      return "reached";
    case StopReason::kBreakpoint:
      return "breakpoint";
    case StopReason::kEnd:
      return "end";
    case StopReason::kExited:
      return "exited";
    case StopReason::kInterrupted:
      return "interrupted";
    case StopReason::kStart:
      return "start";
    case StopReason::kLimit:
      return "limit";
  }
  return "";
}

nb::tuple PySession::record() {
  EventLog log;
  std::optional<Fault> fault;
  LaunchReport report;
  {
    const nb::gil_scoped_release release;
    report = session_.record(log, fault);
  }
  return nb::make_tuple(nb::cast(std::move(report)), bindings::event_columns(*program_, log),
                        text(fault ? fault->message : std::string()));
}

namespace {

// A way back, in slices; see BackSearch.
class PyBackSearch {
 public:
  PyBackSearch(PySession& session, Sought sought)
      : session_(session), search_(session.session(), std::move(sought)) {}
  static PyBackSearch to_breakpoint(PySession& session, std::uint32_t breakpoint) {
    return {session, {.breakpoint = breakpoint}};
  }
  static PyBackSearch to_arrival(PySession& session, std::int64_t cta, std::uint32_t warp,
                                 std::vector<std::uint32_t> lines) {
    return {session, {.arrival = session.arrival_of(cta, warp, std::move(lines))}};
  }
  auto look(std::uint64_t most) {
    return session_.moved([&] { return search_.look(most); });
  }

 private:
  PySession& session_;
  BackSearch search_;
};

}  // namespace
}  // namespace sglab::emu

nb::list sglab::bindings::code_rows(const emu::Program& program) {
  using namespace sglab::emu;
  const Module& module = program.image->module();
  std::map<std::string_view, nb::object> functions;  // by label
  const auto function_of = [&](const Location& at) {
    nb::object& name = functions[at.function_label];
    if (!name.is_valid()) name = text(function_at(module, at));
    return name;
  };
  nb::list all;
  for (std::uint32_t pc = 0; pc < program.code.size(); ++pc) {
    nb::list chain;
    for (const Location* const at : source_chain(program, pc)) {
      const auto file = module.files.find(at->file);
      chain.append(nb::make_tuple(text(file == module.files.end() ? "" : file->second), at->line, at->column,
                                  function_of(*at)));
    }
    all.append(nb::make_tuple(program.places[pc].line, text(opcode_of(program, pc)),
                              class_name(program.code[pc].kind), chain));
  }
  return all;
}

nb::object sglab::bindings::make_session(std::shared_ptr<const emu::Program> program,
                                         emu::LaunchConfig config) {
  return nb::cast(new emu::PySession(std::move(program), std::move(config)), nb::rv_policy::take_ownership);
}

void sglab::bindings::register_session(nb::module_& module) {
  using sglab::emu::PyBackSearch;
  using sglab::emu::PySession;
  using sglab::emu::Session;
  nb::class_<PyBackSearch>(module, "BackSearch", "A way back, in slices; see Session.going_back.")
      .def_static("to_breakpoint", &PyBackSearch::to_breakpoint, "session"_a, "breakpoint"_a,
                  nb::keep_alive<0, 1>())
      .def_static("to_arrival", &PyBackSearch::to_arrival, "session"_a, "cta"_a, "warp"_a, "lines"_a,
                  nb::keep_alive<0, 1>())
      .def("look", &PyBackSearch::look, "most"_a = Session::kNoLimit);
  nb::class_<PySession>(module, "Session",
                        "A launch that goes forwards and backwards; see sglab.emulator.session.")
      .def("step", &PySession::step, "count"_a)
      .def("step_warp", &PySession::step_warp, "cta"_a, "warp"_a, "count"_a, "most"_a = Session::kNoLimit)
      .def("run", &PySession::run, "most"_a = Session::kNoLimit)
      .def("record", &PySession::record)
      .def("follow", &PySession::follow, "cta"_a, "warp"_a, "lines"_a, "most"_a = Session::kNoLimit)
      .def("seek", &PySession::seek, "position"_a)
      .def("return_to", &PySession::return_to, "ticks"_a)
      .def_prop_ro("ticks", &PySession::ticks)
      .def_prop_ro("now", &PySession::now)
      .def_prop_ro("over", &PySession::over)
      .def_prop_ro("failed", &PySession::failed)
      .def_prop_ro("digest", &PySession::digest)
      .def_prop_ro("output", &PySession::output)
      .def_prop_ro("executions", &PySession::executions)
      .def_prop_ro("checkpoints", &PySession::checkpoints, "(how many, about how many bytes).")
      .def("ctas", &PySession::ctas)
      .def("warp", &PySession::warp, "cta"_a, "warp"_a)
      .def("registers", &PySession::registers, "cta"_a, "warp"_a, "group"_a)
      .def("access", &PySession::access, "cta"_a, "warp"_a, "group"_a, "shared"_a)
      .def("barriers", &PySession::barriers, "cta"_a)
      .def(
          "shared",
          [](nb::handle self, std::int64_t cta) { return nb::cast<PySession&>(self).shared(self, cta); },
          "cta"_a)
      .def("shared_written", &PySession::shared_written, "cta"_a)
      .def("tally", &PySession::tally)
      .def("mbarriers", &PySession::mbarriers, "cta"_a)
      .def("in_flight", &PySession::in_flight, "cta"_a)
      .def(
          "tmem",
          [](nb::handle self, std::int64_t cta) { return nb::cast<PySession&>(self).tmem(self, cta); },
          "cta"_a)
      .def("through", &PySession::through, "position"_a)
      .def("writer_of", &PySession::writer_of, "space"_a, "cta"_a, "address"_a, "order"_a)
      .def("wgmma_at", &PySession::wgmma_at, "cta"_a, "warp"_a, "lane"_a, "register"_a, "position"_a)
      .def("last", &PySession::last)
      .def("next", &PySession::next)
      .def("break_code", &PySession::break_code, "pcs"_a, "cta"_a, "warp"_a,
           "conditions"_a = std::vector<PySession::PyCondition>{})
      .def("break_watch", &PySession::break_watch, "space"_a, "begin"_a, "bytes"_a, "reads"_a, "writes"_a,
           "cta"_a)
      .def("break_tensor_watch", &PySession::break_tensor_watch, "column"_a, "columns"_a, "cta"_a)
      .def("break_barrier", &PySession::break_barrier, "kind"_a, "which"_a, "cta"_a)
      .def("break_use", &PySession::break_use, "kind"_a, "which"_a, "pcs"_a, "cta"_a, "warp"_a)
      .def("unbreak", &PySession::unbreak, "id"_a);
}
