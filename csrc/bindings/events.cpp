#include "bindings/events.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <map>
#include <unordered_map>
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

// A value of each row. Writing in place costs less than to append one by one.
template <class T, class Row, class Value>
std::vector<T> made(const std::vector<Row>& rows, const Value& value) {
  std::vector<T> values(rows.size());
  std::transform(rows.begin(), rows.end(), values.begin(), value);
  return values;
}

// Columns of a table, by name.
template <class Row>
class Columns {
 public:
  explicit Columns(const std::vector<Row>& rows) : rows_(rows) {}

  template <class T>
  Columns& add(const char* name, T Row::* field) {
    dict_[name] = array(made<T>(rows_, [&](const Row& row) { return row.*field; }));
    return *this;
  }
  Columns& add(const char* name, bool Row::* field) {
    const auto value = [&](const Row& row) { return static_cast<std::uint8_t>(row.*field ? 1 : 0); };
    dict_[name] = array(made<std::uint8_t>(rows_, value)).attr("view")("bool");
    return *this;
  }
  template <class T, std::size_t N>
  Columns& add(const char* name, std::array<T, N> Row::* field) {
    std::vector<T> values;
    values.reserve(N * rows_.size());
    for (const Row& row : rows_) values.insert(values.end(), (row.*field).begin(), (row.*field).end());
    dict_[name] = array(std::move(values)).attr("reshape")(-1, N);
    return *this;
  }
  nb::dict done() { return std::move(dict_); }

 private:
  const std::vector<Row>& rows_;
  nb::dict dict_;
};

using Log = EventLog;

// Instructions that the decoder added are no events: runs count those of PTX lines, and `shown` lists these.
nb::dict run_columns(const Program& program, const Log& log) {
  std::vector<std::uint32_t> before(program.places.size() + 1), shown;
  for (std::uint32_t pc = 0; pc < program.places.size(); ++pc) {
    before[pc] = static_cast<std::uint32_t>(shown.size());
    if (program.places[pc].line != 0) shown.push_back(pc);
  }
  before.back() = static_cast<std::uint32_t>(shown.size());
  nb::dict columns = Columns(log.runs)
                         .add("cta", &Log::Run::cta)
                         .add("warp", &Log::Run::warp)
                         .add("mask", &Log::Run::mask)
                         .add("times", &Log::Run::times)
                         .done();
  columns["first"] =
      array(made<std::uint32_t>(log.runs, [&](const Log::Run& run) { return before[run.begin]; }));
  columns["length"] = array(made<std::uint32_t>(
      log.runs, [&](const Log::Run& run) { return before[run.end] - before[run.begin]; }));
  columns["shown"] = array(std::move(shown));
  return columns;
}

nb::dict access_columns(const Log& log) {
  using Row = Log::Access;
  return Columns(log.accesses)
      .add("event", &Row::event)
      .add("address", &Row::address)
      .add("span", &Row::span)
      .add("nbytes", &Row::bytes)
      .add("lanes", &Row::lanes)
      .add("space", &Row::space)
      .add("kind", &Row::kind)
      .add("sectors", &Row::sectors)
      .add("lines", &Row::lines)
      .add("wavefronts", &Row::wavefronts)
      .done();
}

nb::dict barrier_columns(const Log& log) {
  using Row = Log::Barrier;
  return Columns(log.barriers)
      .add("event", &Row::event)
      .add("phase", &Row::phase)
      .add("object", &Row::object)
      .add("kind", &Row::kind)
      .add("passed", &Row::passed)
      .done();
}

nb::dict wait_columns(const Log& log) {
  using Row = Log::WaitEnd;
  return Columns(log.waits)
      .add("event", &Row::event)
      .add("since", &Row::since)
      .add("kind", &Row::kind)
      .add("object", &Row::object)
      .add("phase", &Row::phase)
      .done();
}

nb::dict phase_columns(const Log& log) {
  using Row = Log::Phase;
  return Columns(log.phases)
      .add("position", &Row::position)
      .add("event", &Row::event)
      .add("cta", &Row::cta)
      .add("kind", &Row::kind)
      .add("object", &Row::object)
      .add("number", &Row::number)
      .add("asynchronous", &Row::asynchronous)
      .done();
}

nb::dict state_columns(const Log& log) {
  using Row = Log::State;
  return Columns(log.states)
      .add("position", &Row::position)
      .add("cta", &Row::cta)
      .add("kind", &Row::kind)
      .add("object", &Row::object)
      .add("phase", &Row::phase)
      .add("pending", &Row::pending)
      .add("expected", &Row::expected)
      .add("tx_count", &Row::tx_count)
      .done();
}

nb::dict copy_columns(const Log& log) {
  using Row = Log::Copy;
  return Columns(log.copies)
      .add("event", &Row::event)
      .add("done", &Row::done)
      .add("kind", &Row::kind)
      .add("map", &Row::map)
      .add("mode", &Row::mode)
      .add("coordinates", &Row::coordinates)
      .add("nbytes", &Row::bytes)
      .add("address", &Row::global)
      .add("shared", &Row::shared)
      .add("source", &Row::source)
      .add("mbarrier", &Row::mbarrier)
      .add("multicast", &Row::multicast)
      .done();
}

nb::dict mma_columns(const Log& log) {
  using Row = Log::Mma;
  return Columns(log.mmas)
      .add("event", &Row::event)
      .add("done", &Row::done)
      .add("kind", &Row::kind)
      .add("m", &Row::m)
      .add("n", &Row::n)
      .add("k", &Row::k)
      .add("a", &Row::a)
      .add("b", &Row::b)
      .add("d", &Row::d)
      .add("a_space", &Row::a_space)
      .add("a_type", &Row::a_type)
      .add("b_type", &Row::b_type)
      .add("d_type", &Row::d_type)
      .add("a_major", &Row::a_major)
      .add("b_major", &Row::b_major)
      .add("idesc", &Row::idesc)
      .add("accumulate", &Row::accumulate)
      .add("cta_group", &Row::cta_group)
      .done();
}

nb::dict tmem_columns(const Log& log) {
  using Row = Log::Tmem;
  return Columns(log.tmem)
      .add("event", &Row::event)
      .add("done", &Row::done)
      .add("kind", &Row::kind)
      .add("address", &Row::address)
      .add("columns", &Row::columns)
      .add("lanes", &Row::lanes)
      .add("cta_group", &Row::cta_group)
      .done();
}

// Registers that instructions read and write, numbered by their places.
nb::dict mention_columns(const Program& program) {
  std::unordered_map<std::uint64_t, std::uint16_t> places;
  const std::vector<Mention>& all = program.mentions;
  places.reserve(all.size() / 8);  // registers are mentioned more than once
  const auto slot = [&](const Mention& m) {
    const auto number = static_cast<std::uint16_t>(places.size());
    const std::uint64_t place = std::uint64_t{m.predicate} << 32 | (m.place & ~kConstantRef);
    return places.try_emplace(place, number).first->second;
  };
  const auto definition = [](const Mention& m) { return static_cast<std::uint8_t>(m.definition ? 1 : 0); };
  nb::dict columns;
  columns["pc"] = array(made<std::uint32_t>(all, [](const Mention& m) { return m.inst; }));
  columns["slot"] = array(made<std::uint16_t>(all, slot));
  columns["definition"] = array(made<std::uint8_t>(all, definition));
  return columns;
}

template <class T, std::size_t N>
nb::tuple first_of(const std::array<T, N>& values, std::size_t count) {
  nb::list listed;
  for (std::size_t i = 0; i < count; ++i) listed.append(values[i]);
  return nb::tuple(listed);
}

nb::dict map_fields(const TensorMap& map) {
  const std::size_t rank = map.rank;
  nb::dict fields;
  fields["address"] = map.global_address;
  fields["element"] = std::string(tensor_map_type_name(map.type));
  fields["dims"] = first_of(map.global_dim, rank);
  fields["box"] = first_of(map.box_dim, rank);
  nb::list strides;
  for (std::size_t i = 1; i < rank; ++i) strides.append(map.global_stride[i]);
  fields["strides"] = nb::tuple(strides);
  fields["element_strides"] = first_of(map.element_stride, rank);
  fields["swizzle"] = static_cast<int>(map.swizzle);
  fields["interleave"] = static_cast<int>(map.interleave);
  fields["nan_fill"] = map.nan_fill;
  fields["im2col"] = map.im2col;
  return fields;
}

}  // namespace
}  // namespace sglab::emu

nb::dict sglab::bindings::event_columns(const emu::Program& program, const emu::EventLog& log) {
  using namespace sglab::emu;
  nb::list maps;
  for (const TensorMap& map : log.maps) maps.append(map_fields(map));
  nb::dict all;
  all["runs"] = run_columns(program, log);
  all["accesses"] = access_columns(log);
  all["barriers"] = barrier_columns(log);
  all["waits"] = wait_columns(log);
  all["phases"] = phase_columns(log);
  all["states"] = state_columns(log);
  all["copies"] = copy_columns(log);
  all["maps"] = maps;
  all["mmas"] = mma_columns(log);
  all["tmem"] = tmem_columns(log);
  all["mentions"] = mention_columns(program);
  all["shared_bytes"] = program.shared_bytes;
  all["register_bytes"] = program.register_bytes;
  return all;
}

nb::dict sglab::bindings::nan_columns(const emu::Program& program, const emu::NanLog& log) {
  using namespace sglab::emu;
  using Event = NanLog::Event;
  using Operand = NanLog::Operand;
  using Memory = NanLog::Memory;
  nb::dict all;
  all["events"] = Columns(log.events)
                      .add("position", &Event::position)
                      .add("pc", &Event::pc)
                      .add("cta", &Event::cta)
                      .add("warp", &Event::warp)
                      .add("in", &Event::in)
                      .add("out", &Event::out)
                      .add("kind", &Event::kind)
                      .done();
  all["operands"] = Columns(log.operands)
                        .add("event", &Operand::event)
                        .add("register", &Operand::reg)
                        .add("lanes", &Operand::lanes)
                        .add("written", &Operand::written)
                        .add("warp", &Operand::warp)
                        .done();
  all["memory"] = Columns(log.memory)
                      .add("event", &Memory::event)
                      .add("lane", &Memory::lane)
                      .add("address", &Memory::address)
                      .add("bytes", &Memory::bytes)
                      .add("cluster", &Memory::cluster)
                      .add("space", &Memory::space)
                      .add("written", &Memory::written)
                      .done();
  all["truncated"] = log.truncated;
  nb::dict names;
  for (const Operand& one : log.operands) names[nb::int_(one.reg)] = "";
  for (const ProgramFunction& owner : program.functions) {
    const Function& function = program.image->module().functions[owner.source];
    for (std::uint32_t i = 0; i < function.registers.size(); ++i) {
      const nb::int_ reg(owner.first_register + i);
      if (names.contains(reg)) names[reg] = register_name(function, i);
    }
  }
  all["registers"] = names;
  return all;
}

std::vector<sglab::emu::FloatKind> sglab::bindings::float_kinds(const emu::Program& program,
                                                                const nb::dict& kinds) {
  using namespace sglab::emu;
  std::vector<FloatKind> found(program.registers.size(), FloatKind::kNone);
  for (const ProgramFunction& owner : program.functions) {
    const Function& function = program.image->module().functions[owner.source];
    for (std::uint32_t i = 0; i < function.registers.size(); ++i) {
      const nb::str name = nb::cast<nb::str>(nb::cast(register_name(function, i)));
      if (!kinds.contains(name)) continue;
      found[owner.first_register + i] = float_kind(nb::cast<std::string>(kinds[name]));
    }
  }
  return found;
}
