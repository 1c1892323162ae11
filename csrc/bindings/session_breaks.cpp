// Breakpoints that Python sets.
#include <algorithm>
#include <utility>

#include "bindings/py_session.hpp"
#include "machine/async/engine.hpp"
#include "machine/program/builder.hpp"

namespace sglab::emu {

namespace {

Condition::Compare comparison(const std::string& text) {
  using Compare = Condition::Compare;
  constexpr std::pair<const char*, Compare> kAll[] = {{"==", Compare::kEqual}, {"!=", Compare::kUnequal},
                                                      {"<", Compare::kLess},   {"<=", Compare::kAtMost},
                                                      {">", Compare::kMore},   {">=", Compare::kAtLeast}};
  for (const auto& [name, compare] : kAll) {
    if (text == name) return compare;
  }
  throw nb::value_error(("no comparison: " + text).c_str());
}

// Bits without a type are read as the number is written; an integer is not compared with a fraction.
void check_comparable(const std::string& name, const Condition& condition, Type type) {
  if (type == Type::kNone) return;
  const bool real = type == Type::kF32 || type == Type::kF64;
  const bool either = type == Type::kB32 || type == Type::kB64;
  const unsigned bytes = type == Type::kPred ? 1 : letter_bytes(letter_of(type));
  if (bytes <= 8 && (real || either || !condition.is_float)) return;
  throw nb::value_error(
      (name + " is a ." + std::string(type_name(type)) +
       (bytes > 8 ? ", which is not compared" : ": compare it with a whole number, such as 0x3c00"))
          .c_str());
}

}  // namespace

std::uint32_t PySession::break_code(const std::vector<std::uint32_t>& pcs, std::int64_t cta,
                                    std::int64_t warp, const std::vector<PyCondition>& conditions) {
  Breakpoint b;
  b.filter = {cta, warp};
  b.code.resize(program_->code.size());
  for (const std::uint32_t pc : pcs) b.code.at(pc) = true;
  for (const auto& [name, compare, whole, real] : conditions) {
    Condition condition;
    condition.compare = comparison(compare);
    condition.is_float = !whole.has_value();
    condition.whole = whole.value_or(0);
    condition.real = real;
    if (name != "lane") {
      condition.places = places_of(*program_, name);
      const auto known = [&](std::uint32_t pc) { return condition.places[pc].at != kConstantRef; };
      if (std::none_of(pcs.begin(), pcs.end(), known))
        throw nb::value_error((name + " holds no value at any of these instructions").c_str());
      for (const std::uint32_t pc : pcs) check_comparable(name, condition, condition.places[pc].type);
    }
    b.conditions.push_back(std::move(condition));
  }
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
