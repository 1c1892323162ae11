#include "bindings/session.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <utility>

#include "bindings/errors.hpp"
#include "bindings/events.hpp"
#include "bindings/sanitize.hpp"
#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/program/builder.hpp"
#include "observe/debug/inspect.hpp"
#include "observe/debug/session.hpp"
#include "observe/record/accesses.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::emu {
namespace {

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

const char* wait_name(Wait wait) {
  constexpr const char* kNames[] = {"ready",    "warp",  "barrier", "cluster_barrier",
                                    "mbarrier", "async", "resource"};
  return kNames[static_cast<unsigned>(wait)];
}

nb::object text(std::string_view value) {
  return nb::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}

class PySession {
 public:
  PySession(std::shared_ptr<const Program> program, LaunchConfig config)
      : program_(program), session_(std::move(program), std::move(config), bindings::check_signals) {}

  template <class F>
  std::tuple<std::string, std::uint32_t> moved(F f) {
    Stop stop;
    {
      const nb::gil_scoped_release release;
      stop = f();
    }
    if (stop.reason == StopReason::kInterrupted) {
      if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
      throw nb::python_error();
    }
    return {reason_name(stop.reason), stop.breakpoint};
  }
  auto step(std::uint64_t count) {
    return moved([&] { return session_.step(count); });
  }
  auto step_warp(std::int64_t cta, std::uint32_t warp, std::uint64_t count, std::uint64_t most) {
    warp_of(cta, warp);
    return moved([&] { return session_.step_warp(cta, warp, count, most); });
  }
  auto run(std::uint64_t most) {
    return moved([&] { return session_.run(most); });
  }
  auto return_to(std::uint64_t ticks) {
    return moved([&] { return session_.return_to(ticks); });
  }
  auto run_back() {
    return moved([&] { return session_.run_back(); });
  }
  auto seek(std::uint64_t position) {
    return moved([&] { return session_.seek(position); });
  }

  nb::tuple record() {
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

  std::uint64_t now() const { return session_.stepper().now(); }
  std::uint64_t ticks() const { return session_.stepper().ticks(); }
  bool over() const { return session_.stepper().over(); }
  std::uint64_t digest() const { return session_.stepper().digest(); }
  bool failed() const { return session_.fault().has_value(); }
  nb::object output() const { return bindings::printed(session_.stepper().launch().output.text()); }
  std::vector<std::uint64_t> executions() const { return session_.stepper().executions(); }
  std::tuple<std::size_t, std::size_t> checkpoints() const {
    return {session_.checkpoints(), session_.checkpoint_bytes()};
  }

  // (linear index, position in the grid, cluster, rank in it, warps)
  nb::list ctas() const {
    nb::list all;
    for (const Cluster* const cluster : session_.stepper().clusters()) {
      for (const Cta& cta : cluster->ctas) {
        all.append(nb::make_tuple(linear_index(cta), nb::make_tuple(cta.index[0], cta.index[1], cta.index[2]),
                                  cluster->index, cta.rank, cta.warp_count));
      }
    }
    return all;
  }

  // (live lanes, executed instructions, [(pc, mask, wait, key, since, sentence)])
  nb::tuple warp(std::int64_t cta, std::uint32_t index) const {
    const Warp& w = warp_of(cta, index);
    nb::list groups;
    for (std::uint32_t i = 0; i < w.group_count; ++i) {
      const Group& g = w.groups[i];
      const Stepper::Waiting* const waiting = session_.stepper().waiting(w, w.code + g.pc);
      const bool blocked = g.wait != Wait::kReady;
      groups.append(nb::make_tuple(shown_pc(*program_, g.pc), g.mask, wait_name(g.wait), g.key,
                                   blocked && waiting != nullptr ? nb::cast(waiting->since) : nb::none(),
                                   blocked ? "waits " + describe_wait(w, g) : std::string()));
    }
    return nb::make_tuple(w.live, session_.stepper().executed(w), groups);
  }

  // (name, type, bytes per lane or 0, the 32 lanes' bytes or the mask) of live registers
  nb::list registers(std::int64_t cta, std::uint32_t index, std::uint32_t group) const {
    const Warp& w = warp_of(cta, index);
    if (group >= w.group_count)
      throw nb::index_error(("the warp has " + std::to_string(w.group_count) + " groups").c_str());
    nb::list all;
    for (const RegisterView& view : live_registers(w, w.groups[group])) {
      const unsigned bytes = view.letter == 'p' ? 0 : letter_bytes(view.letter);
      all.append(nb::make_tuple(
          view.name, text(type_name(view.type)), bytes,
          nb::bytes(reinterpret_cast<const char*>(view.bytes), bytes == 0 ? 4 : std::size_t{32} * bytes)));
    }
    return all;
  }

  // (pc, lanes, bytes per lane, reads, writes, the 32 lanes' addresses) of the shared-memory access that a
  // group of a warp is about to make; None if its next instruction makes none
  nb::object shared_access(std::int64_t cta, std::uint32_t index, std::uint32_t group) const {
    const Warp& w = warp_of(cta, index);
    if (group >= w.group_count) return nb::none();
    const std::uint32_t pc = shown_pc(*program_, w.groups[group].pc);
    const Inst* const inst = w.code + pc;
    AccessForm form;
    const LaneAccess access = emu::shared_access(w, inst, form);
    if (access.lanes == 0) return nb::none();
    return nb::make_tuple(pc, access.lanes, form.bytes, form.reads, form.writes,
                          std::vector<std::uint64_t>(access.address, access.address + 32));
  }

  // (arrived, expected, phase, lanes arrived by warp) of the 16 named barriers
  nb::list barriers(std::int64_t index) const {
    const Cta& cta = cta_of(index);
    nb::list all;
    for (const NamedBarrier& b : cta.barriers) {
      const std::uint32_t expected = b.expected != 0 ? b.expected : b.arrived != 0 ? cta.live_lanes : 0;
      all.append(nb::make_tuple(b.arrived, expected, b.phase, b.lanes));
    }
    return all;
  }

  // (offset, pending, expected, tx-count, phase) of the live mbarriers, in order of initialisation
  nb::list mbarriers(std::int64_t index) const {
    const Cta& cta = cta_of(index);
    nb::list all;
    if (cta.cluster->async == nullptr) return all;
    for (const std::uint32_t address : cta.cluster->async->mbarriers()) {
      if (address >> kSharedRankShift != cta.rank) continue;
      const std::uint32_t offset = address & kSharedOffsetMask;
      std::uint64_t word;
      std::memcpy(&word, cta.shared + offset, sizeof word);
      const Mbarrier state = Mbarrier::load(word);
      all.append(nb::make_tuple(offset, state.pending, state.expected, state.tx_count, int{state.phase}));
    }
    return all;
  }

  // (kind, CTA, warp, lane, pc, shared address, bytes, mbarrier or None, position) of operations of the CTA's
  // cluster
  nb::list in_flight(std::int64_t index) const {
    const Cluster& cluster = *cta_of(index).cluster;
    nb::list all;
    if (cluster.async == nullptr) return all;
    for (const InFlight& one : cluster.async->in_flight()) {
      const Warp& w = cluster.warps[one.issuer.warp];
      const nb::object signalled = one.mbarrier == kNoMbarrier ? nb::none() : nb::cast(one.mbarrier);
      all.append(nb::make_tuple(one.kind, linear_index(*w.cta), w.index, one.issuer.lane,
                                static_cast<std::uint32_t>(one.issuer.inst - w.code), one.shared, one.bytes,
                                signalled, one.issuer.position));
    }
    return all;
  }

  // (cells [512 columns][128 lanes], the owner of each 32 columns, which cells are written [512][128 bits as
  // bytes], the positions, CTAs, warps and pcs of the last writers [512][8]); None: nothing was allocated yet
  nb::object tmem(nb::handle self, std::int64_t index) const {
    const Cta& cta = cta_of(index);
    const auto& async = cta.cluster->async;
    if (async == nullptr || !async->has_tmem(cta.rank)) return nb::none();
    const TensorMemory& memory = async->tmem(cta.rank);
    std::vector<std::uint32_t> owners;
    for (std::uint32_t c = 0; c < TensorMemory::kColumns; c += TensorMemory::kUnit)
      owners.push_back(memory.owner(c));
    const nb::ndarray<nb::numpy, const std::uint32_t, nb::ndim<2>> cells(
        memory.column(0), {TensorMemory::kColumns, TensorMemory::kLanes}, self);
    std::vector<std::uint64_t> written;
    for (std::uint32_t c = 0; c < TensorMemory::kColumns; ++c)
      written.insert(written.end(), memory.written(c).begin(), memory.written(c).end());
    std::vector<std::int64_t> writers;
    for (const TensorMemory::Writer& by : memory.writers()) {
      const Warp& w = cta.cluster->warps[by.warp];
      const auto put = [&](std::uint64_t value) {
        writers.push_back(by.known ? static_cast<std::int64_t>(value) : -1);
      };
      put(by.position);
      put(static_cast<std::uint64_t>(linear_index(*w.cta)));
      put(w.index);
      put(by.pc);
    }
    const auto bytes_of = [](const auto& values) {
      return nb::bytes(reinterpret_cast<const char*>(values.data()), 8 * values.size());
    };
    return nb::make_tuple(cells, owners, bytes_of(written), bytes_of(writers));
  }

  // The CTA's window: index i is shared address i (or rank << 24 | i for its peers).
  nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> shared(nb::handle self, std::int64_t index) const {
    const Cta& cta = cta_of(index);
    return {cta.shared, {cta.cluster->shared_bytes}, self};
  }

  // Which bytes of the window have been written since the CTA started: a bit for each.
  nb::bytes shared_written(std::int64_t index) const {
    const Cta& cta = cta_of(index);
    const std::span<const std::uint8_t> bits = cta.cluster->written(cta);
    return nb::bytes(reinterpret_cast<const char*>(bits.data()), bits.size());
  }

  nb::object tally() const {
    const Tally all = session_.stepper().tally();
    return bindings::tally_rows(&all);
  }

  // (CTA, warp, pc, lanes) of the instruction executed last, and of the one that the scheduler runs next
  nb::object last() const {
    const Stepper::Last& last = session_.stepper().last();
    if (last.warp == nullptr || now() == 0) return nb::none();
    return place_of(*last.warp, last.inst, last.mask);
  }
  nb::object next() const {
    const Stepper& stepper = session_.stepper();
    if (stepper.next() == nullptr) return nb::none();
    return place_of(*stepper.turn_of(), stepper.next(), stepper.turn_of()->group_mask);
  }

  std::uint32_t break_code(const std::vector<std::uint32_t>& pcs, std::int64_t cta, std::int64_t warp) {
    Breakpoint b;
    b.filter = {cta, warp};
    b.code.resize(program_->code.size());
    for (const std::uint32_t pc : pcs) b.code.at(pc) = true;
    return session_.breakpoints().add(std::move(b));
  }
  std::uint32_t break_watch(const std::string& space, std::uint64_t begin, std::uint64_t bytes, bool reads,
                            bool writes, std::int64_t cta) {
    Breakpoint b;
    b.kind = Breakpoint::Kind::kWatch;
    b.filter.cta = cta;
    b.watch = {space == "shared" ? Space::kShared : Space::kGlobal, begin, begin + bytes, reads, writes};
    if (space == "shared") {
      check_window(cta, begin, bytes);
    } else {
      const Launch& launch = session_.stepper().launch();
      if (launch.find(begin, bytes) == nullptr)
        throw nb::value_error(("the watched memory is not the launch's: " + launch.nearest(begin)).c_str());
    }
    return session_.breakpoints().add(std::move(b));
  }
  std::uint32_t break_tensor_watch(std::uint32_t column, std::uint32_t columns, std::int64_t cta) {
    if (columns == 0 || column + columns > TensorMemory::kColumns)
      throw nb::value_error("tensor memory has columns 0 to 511");
    Breakpoint b;
    b.kind = Breakpoint::Kind::kTensorWatch;
    b.filter.cta = linear_index(cta_of(cta));
    b.watch.begin = column;
    b.watch.end = column + columns;
    return session_.breakpoints().add(std::move(b));
  }
  std::uint32_t break_barrier(const std::string& kind, std::uint32_t which, std::int64_t cta) {
    Breakpoint b;
    b.kind = kind == "mbarrier"  ? Breakpoint::Kind::kMbarrier
             : kind == "cluster" ? Breakpoint::Kind::kClusterBarrier
                                 : Breakpoint::Kind::kNamedBarrier;
    b.filter.cta = cta;
    b.barrier = which;
    if (kind == "mbarrier") {
      check_window(cta, which, 8);
    } else if (which >= 16) {
      throw nb::index_error("named barriers are numbered 0 to 15");
    }
    return session_.breakpoints().add(std::move(b));
  }
  // Instructions among `pcs`, of a warp or of all (-1), about a barrier of a CTA.
  std::uint32_t break_use(const std::string& kind, std::uint32_t which, const std::vector<std::uint32_t>& pcs,
                          std::int64_t cta, std::int64_t warp) {
    Breakpoint b;
    b.kind = kind == "mbarrier" ? Breakpoint::Kind::kMbarrierUse : Breakpoint::Kind::kBarrierUse;
    b.filter = {cta, warp};
    b.barrier = which;
    b.code.resize(program_->code.size());
    for (const std::uint32_t pc : pcs) b.code.at(pc) = true;
    return session_.breakpoints().add(std::move(b));
  }
  bool unbreak(std::uint32_t id) { return session_.breakpoints().remove(id); }

 private:
  static nb::object place_of(const Warp& w, const Inst* inst, std::uint32_t mask) {
    const auto pc = shown_pc(*w.program, static_cast<std::uint32_t>(inst - w.code));
    return nb::make_tuple(linear_index(*w.cta), w.index, pc, mask);
  }
  const Cta& cta_of(std::int64_t index) const {
    const Cta* const cta = find_cta(session_.stepper(), index);
    if (cta == nullptr) throw nb::index_error(("CTA " + std::to_string(index) + " is not running").c_str());
    return *cta;
  }
  const Warp& warp_of(std::int64_t cta_index, std::uint32_t index) const {
    const Cta& cta = cta_of(cta_index);
    if (index >= cta.warp_count)
      throw nb::index_error(("the CTA has " + std::to_string(cta.warp_count) + " warps").c_str());
    return cta.cluster->warps[cta.first_warp + index];
  }
  void check_window(std::int64_t cta, std::uint64_t begin, std::uint64_t bytes) const {
    const std::uint32_t limit = cta_of(cta).cluster->shared_bytes;
    if (begin > limit || bytes > limit - begin)
      throw nb::value_error(("shared memory ends at offset " + std::to_string(limit)).c_str());
  }

  std::shared_ptr<const Program> program_;
  Session session_;
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
  using sglab::emu::PySession;
  using sglab::emu::Session;
  nb::class_<PySession>(module, "Session",
                        "A launch that goes forwards and backwards; see sglab.emulator.session.")
      .def("step", &PySession::step, "count"_a)
      .def("step_warp", &PySession::step_warp, "cta"_a, "warp"_a, "count"_a, "most"_a = Session::kNoLimit)
      .def("run", &PySession::run, "most"_a = Session::kNoLimit)
      .def("record", &PySession::record)
      .def("run_back", &PySession::run_back)
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
      .def("shared_access", &PySession::shared_access, "cta"_a, "warp"_a, "group"_a)
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
      .def("last", &PySession::last)
      .def("next", &PySession::next)
      .def("break_code", &PySession::break_code, "pcs"_a, "cta"_a, "warp"_a)
      .def("break_watch", &PySession::break_watch, "space"_a, "begin"_a, "bytes"_a, "reads"_a, "writes"_a,
           "cta"_a)
      .def("break_tensor_watch", &PySession::break_tensor_watch, "column"_a, "columns"_a, "cta"_a)
      .def("break_barrier", &PySession::break_barrier, "kind"_a, "which"_a, "cta"_a)
      .def("break_use", &PySession::break_use, "kind"_a, "which"_a, "pcs"_a, "cta"_a, "warp"_a)
      .def("unbreak", &PySession::unbreak, "id"_a);
}
