// What Python sees of a session: CTAs, warps, registers, memories, barriers, operations in flight.
#include <cstring>

#include "bindings/py_session.hpp"
#include "bindings/sanitize.hpp"
#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/program/builder.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {
namespace {

const char* wait_name(Wait wait) {
  constexpr const char* kNames[] = {"ready",    "warp",  "barrier", "cluster_barrier",
                                    "mbarrier", "async", "resource"};
  return kNames[static_cast<unsigned>(wait)];
}

}  // namespace

nb::list PySession::ctas() const {
  nb::list all;
  for (const Cluster* const cluster : session_.stepper().clusters()) {
    for (const Cta& cta : cluster->ctas) {
      all.append(nb::make_tuple(linear_index(cta), nb::make_tuple(cta.index[0], cta.index[1], cta.index[2]),
                                cluster->index, cta.rank, cta.warp_count));
    }
  }
  return all;
}

nb::tuple PySession::warp(std::int64_t cta, std::uint32_t index) const {
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

nb::list PySession::registers(std::int64_t cta, std::uint32_t index, std::uint32_t group) const {
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

nb::object PySession::access(std::int64_t cta, std::uint32_t index, std::uint32_t group, bool shared) const {
  const Warp& w = warp_of(cta, index);
  if (group >= w.group_count) return nb::none();
  const std::uint32_t pc = shown_pc(*program_, w.groups[group].pc);
  const Inst* const inst = w.code + pc;
  AccessForm form;
  const LaneAccess access = shared ? shared_access(w, inst, form) : global_access(w, inst, form);
  if (access.lanes == 0) return nb::none();
  return nb::make_tuple(pc, access.lanes, form.bytes, form.reads, form.writes, form.takes_turns(),
                        std::vector<std::uint64_t>(access.address, access.address + 32));
}

nb::list PySession::barriers(std::int64_t index) const {
  const Cta& cta = cta_of(index);
  nb::list all;
  for (const NamedBarrier& b : cta.barriers) {
    const std::uint32_t expected = b.expected != 0 ? b.expected : b.arrived != 0 ? cta.live_lanes : 0;
    all.append(nb::make_tuple(b.arrived, expected, b.phase, b.lanes));
  }
  return all;
}

nb::list PySession::mbarriers(std::int64_t index) const {
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

nb::list PySession::in_flight(std::int64_t index) const {
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

nb::object PySession::tmem(nb::handle self, std::int64_t index) const {
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

nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> PySession::shared(nb::handle self,
                                                                          std::int64_t index) const {
  const Cta& cta = cta_of(index);
  return {cta.shared, {cta.cluster->shared_bytes}, self};
}

nb::bytes PySession::shared_written(std::int64_t index) const {
  const Cta& cta = cta_of(index);
  const std::span<const std::uint8_t> bits = cta.cluster->written(cta);
  return nb::bytes(reinterpret_cast<const char*>(bits.data()), bits.size());
}

nb::object PySession::tally() const {
  const Tally all = session_.stepper().tally();
  return bindings::tally_rows(&all);
}

nb::object PySession::last() const {
  const Stepper::Ran& ran = session_.stepper().ran();
  if (ran.warp == nullptr || now() == 0) return nb::none();
  return place_of(*ran.warp, ran.inst, ran.mask);
}

nb::object PySession::next() const {
  const Stepper& stepper = session_.stepper();
  if (stepper.next() == nullptr) return nb::none();
  return place_of(*stepper.turn_of(), stepper.next(), stepper.turn_of()->group_mask);
}

namespace {

const char* place_name(Space space) {
  return space == Space::kShared ? "shared" : space == Space::kReg ? "tensor" : "global";
}

nb::object row_of(const std::optional<FoundWriter>& found) {
  if (!found) return nb::none();
  nb::list sources;
  for (const FoundWriter::Source& one : found->sources)
    sources.append(
        nb::make_tuple(place_name(one.place.space), one.place.cta, one.place.address,
                       nb::bytes(reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size())));
  return nb::make_tuple(found->operation, found->pc, found->cta, found->warp, found->lanes, found->position,
                        nb::make_tuple(found->order.ticks, found->order.count), found->element, sources,
                        found->result);
}

}  // namespace

std::tuple<std::uint64_t, std::uint64_t> PySession::through(std::uint64_t position) {
  const EventOrder order = session_.through(position);
  return {order.ticks, order.count};
}

nb::object PySession::writer_of(const std::string& space, std::int64_t cta, std::uint64_t address,
                                std::tuple<std::uint64_t, std::uint64_t> order) {
  MemoryPlace place{Space::kGlobal, cta, address};
  if (space == "shared") place.space = Space::kShared;
  if (space == "tensor") place.space = Space::kReg;
  return row_of(session_.writer_of(place, {std::get<0>(order), std::get<1>(order)}));
}

nb::object PySession::wgmma_at(std::int64_t cta, std::uint32_t warp, std::uint32_t lane, std::uint32_t reg,
                               std::uint64_t position) {
  return row_of(session_.wgmma_at({cta, warp, lane, reg}, position));
}

}  // namespace sglab::emu
