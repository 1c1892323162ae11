#include "bindings/errors.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "bindings/sanitize.hpp"
#include "machine/engine/fault.hpp"
#include "machine/front/poll.hpp"
#include "machine/scheduler/progress.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::bindings {
namespace {

using emu::Fault;
using emu::LaunchFault;
using emu::WaitLink;

PyObject* ptx_error = nullptr;
PyObject* launch_error = nullptr;
PyObject* poll_listener = nullptr;  // lives as long as the process

void set_error(PyObject* type, const std::string& message, const nb::dict& attributes) {
  nb::object error = nb::handle(type)(printed(message));
  for (const auto& [name, value] : attributes) nb::setattr(error, name, value);
  PyErr_SetObject(type, error.ptr());
}

nb::list cycle_rows(const std::vector<WaitLink>& cycle) {
  nb::list rows;
  for (const WaitLink& link : cycle) {
    const nb::object next = link.next < 0 ? nb::none() : nb::cast(link.next);
    rows.append(nb::make_tuple(nb::make_tuple(link.cta[0], link.cta[1], link.cta[2]), link.warp, link.lanes,
                               link.ptx_line, link.source_file, link.source_line, link.kind, link.object,
                               link.phase, link.waits, next, link.next_line));
  }
  return rows;
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const NamedPtxError& caught) {
    nb::dict attributes;
    attributes["line"] = caught.error.line;
    attributes["column"] = caught.error.column;
    attributes["source"] = caught.source;
    set_error(ptx_error, caught.source + ":" + std::to_string(caught.error.line) + ": " + caught.error.what(),
              attributes);
  } catch (const LaunchFault& caught) {
    const Fault& f = caught.fault;
    if (f.kind == "interrupted") {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
      return;
    }
    nb::dict attributes;
    attributes["kind"] = f.kind;
    attributes["kernel"] = f.kernel;
    attributes["cta"] = nb::make_tuple(f.cta[0], f.cta[1], f.cta[2]);
    attributes["warp"] = f.warp;
    attributes["lane"] = f.lane;
    attributes["pc"] = f.pc;
    attributes["ptx_line"] = f.ptx_line;
    attributes["source_file"] = f.source_file;
    attributes["source_line"] = f.source_line;
    attributes["cycle"] = cycle_rows(f.cycle);
    attributes["tally"] = tally_rows(f.tally.get());
    std::string where;
    if (f.warp >= 0) {
      where = " [kernel " + emu::shown_name(f.kernel) + ", CTA (" + std::to_string(f.cta[0]) + ", " +
              std::to_string(f.cta[1]) + ", " + std::to_string(f.cta[2]) + "), warp " +
              std::to_string(f.warp) + (f.lane >= 0 ? ", lane " + std::to_string(f.lane) : "") +
              ", PTX line " + std::to_string(f.ptx_line) +
              (f.source_file.empty() ? "" : ", " + f.source_file + ":" + std::to_string(f.source_line)) + "]";
    }
    set_error(launch_error, f.message + where, attributes);
  } catch (const emu::Interrupted&) {
    if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
  }
}

}  // namespace

nb::object printed(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

bool check_signals() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) return true;
  if (poll_listener == nullptr) return false;
  const auto heard = nb::steal(
      PyObject_CallFunction(poll_listener, "K", static_cast<unsigned long long>(emu::executed_so_far)));
  return !heard.is_valid();
}

void register_errors(nb::module_& module) {
  ptx_error =
      PyErr_NewExceptionWithDoc("sglab._core.PtxError", "PTX that is not well formed: line, column, source.",
                                PyExc_ValueError, nullptr);
  launch_error = PyErr_NewExceptionWithDoc("sglab._core.LaunchError",
                                           "A launch that was refused or failed: kind, kernel, cta, warp, "
                                           "lane, pc, ptx_line, source_file, source_line.",
                                           PyExc_RuntimeError, nullptr);
  module.attr("PtxError") = nb::borrow(ptx_error);
  module.attr("LaunchError") = nb::borrow(launch_error);
  nb::register_exception_translator(translate);
  module.def(
      "on_poll", [](nb::object listener) { poll_listener = listener.release().ptr(); }, "listener"_a,
      "listener(warp-instructions executed) is called every 30 ms by the thread that runs a launch or reads "
      "PTX; what it "
      "raises ends that.");
}

}  // namespace sglab::bindings
