#include "observe/record/nans.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/program/register_names.hpp"
#include "machine/tensor/wgmma.hpp"

namespace sglab::emu {

NanRecorder::NanRecorder(const Program& program, std::vector<FloatKind> kinds,
                         std::vector<FloatTypes::Tensor> tensors, ElementType copied, bool infinite,
                         std::size_t most)
    : program_(program),
      types_(std::move(tensors)),
      copied_(copied),
      infinite_(infinite),
      most_(most),
      watched_(program.code.size()),
      forms_(access_forms(program)),
      details_(details_of(program)) {
  const RegisterNames names(program);
  std::vector<std::uint32_t> written(program.code.size()), read(program.code.size());
  for (const Mention& m : program.mentions) {
    if (m.predicate) continue;
    const RegisterNames::Named* const named = names.find(m);
    std::uint32_t& count = (m.definition ? written : read)[m.inst];
    const std::uint32_t number = count++;
    if (named == nullptr || kinds[named->reg] == FloatKind::kNone) continue;
    const auto stride = static_cast<std::uint8_t>(type_bytes(named->function->registers[named->index]));
    const Effects& effects = program.effects[m.inst];
    const auto moved = static_cast<std::uint8_t>(type_bytes(effects.type));
    const std::uint8_t bytes = effects.act == Act::kAccess && moved != 0 ? std::min(stride, moved) : stride;
    watched_[m.inst].push_back({m.place, kinds[named->reg], stride, bytes, m.definition, named->reg, number});
  }
}

void NanRecorder::launched(const Launch&) {
  log_ = {};
  pending_.clear();
  unfilled_.clear();
  types_.forget();
  moved_.clear();
  issues_.clear();
  left_.clear();
  position_ = 0;
}

std::uint32_t NanRecorder::lanes_of(const Warp& w, const Watched& one, FloatKind kind) const {
  if (kind == FloatKind::kNone) return 0;
  const std::uint8_t* const base = w.bank[0] + one.place;
  std::uint32_t mask = 0;
  for (int lane = 0; lane < 32; ++lane) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, base + lane * one.stride, one.bytes);
    mask |= static_cast<std::uint32_t>(is_nan(kind, bits, infinite_)) << lane;
  }
  return mask;
}

std::uint32_t NanRecorder::add(const NanLog::Event& event) {
  log_.events.push_back(event);
  log_.truncated = log_.truncated || full();
  return static_cast<std::uint32_t>(log_.events.size() - 1);
}

void NanRecorder::attempting(const Warp& w, const Inst* inst) {
  flush();
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  const std::vector<Watched>& watched = watched_[pc];
  if (watched.empty() || full()) return;
  lanes_ = active_lanes(w, inst);
  apart_ = !w.meetings.empty();
  sources_.clear();
  now_.clear();
  for (const Watched& one : watched) {
    const auto known = one.kind == FloatKind::kMoved ? moved_.find({&w, one.reg}) : moved_.end();
    now_.push_back(one.kind != FloatKind::kMoved ? one.kind
                   : known == moved_.end()       ? FloatKind::kNone
                                                 : known->second);
    sources_.push_back(one.written ? 0 : lanes_of(w, one, now_.back()) & lanes_);
  }
  if (program_.effects[pc].taint == TaintRule::kWgmma) pass_over_sums(w, watched);
  accesses_[0].lanes = accesses_[1].lanes = 0;
  const Act act = program_.effects[pc].act;
  if (act == Act::kAccess) accesses_[0] = global_access(w, inst, form_);
  if (act == Act::kAccess || act == Act::kMatrixRows) accesses_[1] = shared_access(w, inst, form_);
  if (act == Act::kTmemLoad || act == Act::kTmemStore)
    look_ahead(w, inst, forms_[pc], details_[pc], position_, seen_);
}

void NanRecorder::attempted(const Warp& w, const Inst* inst, const Inst* next) {
  if (w.retry) return;
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  const Effects& effects = program_.effects[pc];
  const std::vector<Watched>& watched = watched_[pc];
  const bool later = effects.act == Act::kTmemLoad, product = effects.taint == TaintRule::kWgmma;
  if (later && !watched.empty()) unfilled_[&w].push_back({pc, seen_.tmem});
  if (product && !full()) keep_sources(w, watched);
  if (!watched.empty() && !product && !full()) {
    const bool joined = next == inst + 1 && inst->guard == kNoGuard && !apart_;
    const std::uint32_t lanes = joined ? w.group_mask : lanes_;
    std::uint32_t in = 0, out = 0;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].written && watched[i].kind == FloatKind::kMoved)
        now_[i] = moved_[{&w, watched[i].reg}] = moved_to(watched[i], effects, watched, w.cluster);
      if (watched[i].written) sources_[i] = later ? 0 : lanes_of(w, watched[i], now_[i]) & lanes;
      (watched[i].written ? out : in) |= sources_[i];
    }
    if ((in | out) != 0) {
      const std::uint32_t event = add({position_, pc, static_cast<std::uint32_t>(linear_index(*w.cta)),
                                       w.index, in, out, NanLog::kInstruction});
      for (std::size_t i = 0; i < watched.size(); ++i) {
        if (sources_[i] != 0)
          log_.operands.push_back({event, watched[i].reg, sources_[i], watched[i].written, w.index});
      }
      keep_access(w, inst, event);
    }
    if (effects.writes && accesses_[1].lanes != 0) note_stored(w, effects, watched);
  }
  const bool filled = effects.act == Act::kFence && effects.fence == FenceKind::kTcgenWaitLoad;
  if (filled && !unfilled_.empty()) {
    const auto found = unfilled_.find(&w);
    if (found != unfilled_.end()) {
      for (const Unfilled& one : std::exchange(found->second, {})) fill(w, one);
    }
  }
  if (program_.places[pc].line != 0) ++position_;
}

FloatKind NanRecorder::moved_to(const Watched& one, const Effects& effects,
                                const std::vector<Watched>& watched, const Cluster* cluster) const {
  if (effects.act == Act::kTmemLoad) return FloatKind::kF32;  // sums of products
  if (effects.act != Act::kAccess && effects.act != Act::kMatrixRows) {
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (!watched[i].written && now_[i] != FloatKind::kNone) return now_[i];
    }
    return FloatKind::kNone;
  }
  const std::uint32_t within = effects.act == Act::kAccess ? one.number * one.bytes : 0;
  for (const bool shared : {false, true}) {
    const LaneAccess& access = accesses_[shared];
    if (access.lanes == 0) continue;
    const std::uint64_t address = access.address[std::countr_zero(access.lanes)] + within;
    return in_register(shared ? types_.shared(*cluster, address) : types_.global(address), one.bytes);
  }
  return FloatKind::kNone;
}

// What shared memory holds from here on.
void NanRecorder::note_stored(const Warp& w, const Effects& effects, const std::vector<Watched>& watched) {
  const LaneAccess& access = accesses_[1];
  std::uint32_t stored = 0;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    if (watched[i].written) continue;
    const bool rows = effects.act == Act::kMatrixRows;
    const std::uint32_t bytes = rows ? 16 : watched[i].bytes, within = rows ? 0 : stored++ * bytes;
    const FloatKind element = sglab::emu::element_of(now_[i]);
    if (element == FloatKind::kNone) continue;
    for (std::uint32_t m = access.lanes; m != 0; m &= m - 1)
      types_.put(*w.cluster, access.address[std::countr_zero(m)] + within, bytes, element);
  }
}

// The registers of a tcgen05.ld, once they hold what was promised.
void NanRecorder::fill(const Warp& w, const Unfilled& unfilled) {
  const std::uint32_t pc = unfilled.pc;
  std::uint32_t event = 0, out = 0;
  for (const Watched& one : watched_[pc]) {
    if (!one.written || full()) continue;
    const FloatKind kind = one.kind == FloatKind::kMoved ? FloatKind::kF32 : one.kind;
    const std::uint32_t lanes = lanes_of(w, one, kind) & w.group_mask;
    if (lanes == 0) continue;
    if (out == 0)
      event = add(
          {position_, pc, static_cast<std::uint32_t>(linear_index(*w.cta)), w.index, 0, 0, NanLog::kFilled});
    out |= lanes;
    log_.operands.push_back({event, one.reg, lanes, true, w.index});
  }
  if (out == 0) return;
  log_.events[event].out = out;
  if (unfilled.from) keep_columns(w, event, *unfilled.from, false);
}

void NanRecorder::keep_columns(const Warp& w, std::uint32_t event, const EventLog::Tmem& t, bool written) {
  const std::uint32_t lane = t.address >> 16, column = t.address & 0xffff;
  for (std::uint32_t c = column; c < column + t.columns; ++c)
    log_.memory.push_back(
        {event, -1, (std::uint64_t{w.cta->rank} * TensorMemory::kColumns + c) * TensorMemory::kLanes + lane,
         t.lanes, static_cast<std::uint32_t>(w.cluster->index), 2, written});
}

// Bytes of the lanes that hold NaN: of vectors, the elements in the order of their registers.
void NanRecorder::keep_access(const Warp& w, const Inst* inst, std::uint32_t event) {
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  const Effects& effects = program_.effects[pc];
  const auto cluster = static_cast<std::uint32_t>(w.cluster->index);
  if (effects.act == Act::kTmemStore && seen_.tmem) {
    keep_columns(w, event, *seen_.tmem, true);
    return;
  }
  if (effects.act != Act::kAccess && effects.act != Act::kMatrixRows) return;
  const bool writes = effects.writes;
  const bool rows = effects.act == Act::kMatrixRows;
  for (int space = 0; space < 2; ++space) {
    const LaneAccess& access = accesses_[space];
    if (access.lanes == 0) continue;
    if (rows) {
      for (std::uint32_t m = access.lanes; m != 0; m &= m - 1)
        log_.memory.push_back({event, std::countr_zero(m), access.address[std::countr_zero(m)], 16, cluster,
                               static_cast<std::uint8_t>(space), writes});
      continue;
    }
    const std::vector<Watched>& watched = watched_[pc];
    std::uint32_t stored = 0;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].written == writes && !effects.atomic) continue;
      const std::uint32_t bytes = watched[i].bytes;
      // A load's results count from the vector's first; a store's sources come after its address.
      const std::uint32_t within = writes ? stored++ : watched[i].number;
      for (std::uint32_t m = sources_[i] & access.lanes; m != 0; m &= m - 1) {
        const int lane = std::countr_zero(m);
        log_.memory.push_back({event, lane, access.address[lane] + std::uint64_t{within} * bytes, bytes,
                               cluster, static_cast<std::uint8_t>(space), writes});
      }
    }
  }
}

}  // namespace sglab::emu
