#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/errors.hpp"
#include "observe/debug/inspect.hpp"
#include "observe/debug/session.hpp"

namespace sglab::emu {

namespace nb = nanobind;

inline nb::object text(std::string_view value) {
  return nb::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}

const char* reason_name(StopReason reason);

// A session as Python has it: moves here, what can be seen in session_views.cpp, breakpoints in
// session_breaks.cpp.
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
  // lines: by pc, 0 for none; empty: every instruction
  auto follow(std::int64_t cta, std::uint32_t warp, std::vector<std::uint32_t> lines, std::uint64_t most) {
    warp_of(cta, warp);
    const Arrival arrival = arrival_of(cta, warp, std::move(lines));
    return moved([&] { return session_.follow(arrival, most); });
  }
  auto seek(std::uint64_t position) {
    return moved([&] { return session_.seek(position); });
  }

  nb::tuple record();

  Session& session() { return session_; }
  Arrival arrival_of(std::int64_t cta, std::uint32_t warp, std::vector<std::uint32_t> lines) const {
    if (!lines.empty() && lines.size() != program_->code.size())
      throw nb::value_error("lines must have one number per instruction");
    return {cta, warp, std::move(lines)};
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
  nb::list ctas() const;
  // (live lanes, executed instructions, [(pc, mask, wait, key, since, sentence)])
  nb::tuple warp(std::int64_t cta, std::uint32_t index) const;
  // (name, type, bytes per lane or 0, the 32 lanes' bytes or the mask) of live registers
  nb::list registers(std::int64_t cta, std::uint32_t index, std::uint32_t group) const;
  // (pc, lanes, bytes per lane, reads, writes, the 32 lanes' addresses) of the access to shared or global
  // memory that a group of a warp is about to make; None if its next instruction makes none
  nb::object access(std::int64_t cta, std::uint32_t index, std::uint32_t group, bool shared) const;
  // (arrived, expected, phase, lanes arrived by warp) of the 16 named barriers
  nb::list barriers(std::int64_t index) const;
  // (offset, pending, expected, tx-count, phase) of the live mbarriers, in order of initialisation
  nb::list mbarriers(std::int64_t index) const;
  // (kind, CTA, warp, lane, pc, shared address, bytes, mbarrier or None, position) of operations of the CTA's
  // cluster
  nb::list in_flight(std::int64_t index) const;
  // (cells [512 columns][128 lanes], the owner of each 32 columns, which cells are written [512][128 bits as
  // bytes], the positions, CTAs, warps and pcs of the last writers [512][8]); None: nothing was allocated yet
  nb::object tmem(nb::handle self, std::int64_t index) const;
  // The CTA's window: index i is shared address i (or rank << 24 | i for its peers).
  nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> shared(nb::handle self, std::int64_t index) const;
  // Which bytes of the window have been written since the CTA started: a bit for each.
  nb::bytes shared_written(std::int64_t index) const;
  nb::object tally() const;
  // (CTA, warp, pc, lanes) of the instruction executed last, and of the one that the scheduler runs next
  nb::object last() const;
  nb::object next() const;

  // (ticks, count) of the moment at which the instruction at a position has been executed.
  std::tuple<std::uint64_t, std::uint64_t> through(std::uint64_t position);
  // (operation, pc, CTA, warp, lanes, position, (ticks, count), element, [(space, CTA, address, bytes)],
  // results) of who wrote a byte or cell last before a moment, or of a wgmma; None: nobody did
  nb::object writer_of(const std::string& space, std::int64_t cta, std::uint64_t address,
                       std::tuple<std::uint64_t, std::uint64_t> order);
  nb::object wgmma_at(std::int64_t cta, std::uint32_t warp, std::uint32_t lane, std::uint32_t reg,
                      std::uint64_t position);

  // Of a condition: a register's name or "lane", a comparison, and a number, whole or (the last) not.
  using PyCondition = std::tuple<std::string, std::string, std::optional<std::int64_t>, double>;
  std::uint32_t break_code(const std::vector<std::uint32_t>& pcs, std::int64_t cta, std::int64_t warp,
                           const std::vector<PyCondition>& conditions);
  std::uint32_t break_watch(const std::string& space, std::uint64_t begin, std::uint64_t bytes, bool reads,
                            bool writes, std::int64_t cta);
  std::uint32_t break_tensor_watch(std::uint32_t column, std::uint32_t columns, std::int64_t cta);
  std::uint32_t break_barrier(const std::string& kind, std::uint32_t which, std::int64_t cta);
  // Instructions among `pcs`, of a warp or of all (-1), about a barrier of a CTA.
  std::uint32_t break_use(const std::string& kind, std::uint32_t which, const std::vector<std::uint32_t>& pcs,
                          std::int64_t cta, std::int64_t warp);
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

}  // namespace sglab::emu
