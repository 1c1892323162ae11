// Breakpoints that Python sets.
#include "bindings/py_session.hpp"
#include "machine/async/engine.hpp"

namespace sglab::emu {

std::uint32_t PySession::break_code(const std::vector<std::uint32_t>& pcs, std::int64_t cta,
                                    std::int64_t warp) {
  Breakpoint b;
  b.filter = {cta, warp};
  b.code.resize(program_->code.size());
  for (const std::uint32_t pc : pcs) b.code.at(pc) = true;
  return session_.breakpoints().add(std::move(b));
}

std::uint32_t PySession::break_watch(const std::string& space, std::uint64_t begin, std::uint64_t bytes,
                                     bool reads, bool writes, std::int64_t cta) {
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

std::uint32_t PySession::break_tensor_watch(std::uint32_t column, std::uint32_t columns, std::int64_t cta) {
  if (columns == 0 || column + columns > TensorMemory::kColumns)
    throw nb::value_error("tensor memory has columns 0 to 511");
  Breakpoint b;
  b.kind = Breakpoint::Kind::kTensorWatch;
  b.filter.cta = linear_index(cta_of(cta));
  b.watch.begin = column;
  b.watch.end = column + columns;
  return session_.breakpoints().add(std::move(b));
}

std::uint32_t PySession::break_barrier(const std::string& kind, std::uint32_t which, std::int64_t cta) {
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

std::uint32_t PySession::break_use(const std::string& kind, std::uint32_t which,
                                   const std::vector<std::uint32_t>& pcs, std::int64_t cta,
                                   std::int64_t warp) {
  Breakpoint b;
  b.kind = kind == "mbarrier" ? Breakpoint::Kind::kMbarrierUse : Breakpoint::Kind::kBarrierUse;
  b.filter = {cta, warp};
  b.barrier = which;
  b.code.resize(program_->code.size());
  for (const std::uint32_t pc : pcs) b.code.at(pc) = true;
  return session_.breakpoints().add(std::move(b));
}

}  // namespace sglab::emu
