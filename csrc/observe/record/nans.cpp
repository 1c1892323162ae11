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
namespace {

constexpr std::uint32_t kUnwritten = 0x7fff7fffu;  // what the machine leaves where nothing was written
constexpr std::uint32_t kMostRanges = 64;          // kept of one operation, in each direction
constexpr std::uint32_t kTmemColumns = 512, kTmemLanes = 128;

// Exponent and significand compared at once.
bool beyond(std::uint64_t bits, std::uint64_t magnitude, std::uint64_t infinity, bool infinite) {
  return (bits & magnitude) > infinity || (infinite && (bits & magnitude) == infinity);
}
bool half(std::uint32_t bits, bool infinite) {
  return beyond(bits, 0x7fff, 0x7c00, infinite);
}
bool brain(std::uint32_t bits, bool infinite) {
  return beyond(bits, 0x7fff, 0x7f80, infinite);
}

int bytes_of(ElementType type) {
  return element_bits(type) / 8;
}

ElementType type_of(TensorMapType type, ElementType otherwise) {
  switch (type) {
    case TensorMapType::kF16:
      return ElementType::kF16;
    case TensorMapType::kBf16:
      return ElementType::kBf16;
    case TensorMapType::kF32:
    case TensorMapType::kF32Ftz:
    case TensorMapType::kTf32:
    case TensorMapType::kTf32Ftz:
      return ElementType::kF32;
    case TensorMapType::kU16:
      return otherwise;
    default:
      return ElementType::kS8;
  }
}

const std::uint8_t* host(const Cluster& cluster, const Range& range) {
  if (range.space != Space::kShared) return reinterpret_cast<const std::uint8_t*>(range.address);
  const auto rank = static_cast<std::size_t>(range.address >> kSharedRankShift);
  const auto offset = static_cast<std::uint32_t>(range.address & kSharedOffsetMask);
  if (rank >= cluster.ctas.size() || offset + std::uint64_t{range.bytes} > cluster.shared_bytes)
    return nullptr;
  return cluster.ctas[rank].shared + offset;
}

}  // namespace

NanRecorder::NanRecorder(const Program& program, std::vector<FloatKind> kinds, ElementType copied,
                         bool infinite, std::size_t most)
    : program_(program),
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
    watched_[m.inst].push_back({m.place, kinds[named->reg], stride, m.definition, named->reg, number});
  }
}

void NanRecorder::launched(const Launch&) {
  log_ = {};
  pending_.clear();
  unfilled_.clear();
  position_ = 0;
}

std::uint32_t NanRecorder::lanes_of(const Warp& w, const Watched& one) const {
  const std::uint8_t* const base = w.bank[0] + one.place;
  std::uint32_t mask = 0;
  for (int lane = 0; lane < 32; ++lane) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, base + lane * one.stride, one.stride);
    const auto low = static_cast<std::uint32_t>(bits);
    bool is = false;
    switch (one.kind) {
      case FloatKind::kNone:
        break;
      case FloatKind::kF16:
        is = half(low & 0xffff, infinite_);
        break;
      case FloatKind::kBf16:
        is = brain(low & 0xffff, infinite_);
        break;
      case FloatKind::kF32:
        is = beyond(low, 0x7fffffff, 0x7f800000, infinite_);
        break;
      case FloatKind::kF64:
        is = beyond(bits, 0x7fffffffffffffffu, 0x7ff0000000000000u, infinite_);
        break;
      case FloatKind::kF16x2:
        is = half(low & 0xffff, infinite_) || half(low >> 16, infinite_);
        break;
      case FloatKind::kBf16x2:
        is = brain(low & 0xffff, infinite_) || brain(low >> 16, infinite_);
        break;
    }
    mask |= static_cast<std::uint32_t>(is) << lane;
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
  sources_.clear();
  for (const Watched& one : watched) sources_.push_back(one.written ? 0 : lanes_of(w, one) & lanes_);
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
  const bool later = effects.act == Act::kTmemLoad || effects.taint == TaintRule::kWgmma;
  if (later && !watched.empty())
    unfilled_[&w].push_back({pc, effects.act == Act::kTmemLoad ? seen_.tmem : std::nullopt});
  if (!watched.empty() && !full()) {
    const bool joined = next == inst + 1 && inst->guard == kNoGuard;
    const std::uint32_t lanes = joined ? w.group_mask : lanes_;
    std::uint32_t in = 0, out = 0;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].written) sources_[i] = later ? 0 : lanes_of(w, watched[i]) & lanes;
      (watched[i].written ? out : in) |= sources_[i];
    }
    if ((in | out) != 0) {
      const std::uint32_t event = add({position_, pc, static_cast<std::uint32_t>(linear_index(*w.cta)),
                                       w.index, in, out, NanLog::kInstruction});
      for (std::size_t i = 0; i < watched.size(); ++i) {
        if (sources_[i] != 0)
          log_.operands.push_back({event, watched[i].reg, sources_[i], watched[i].written});
      }
      keep_access(w, inst, event);
    }
  }
  const bool filled = effects.act == Act::kFence
                          ? effects.fence == FenceKind::kTcgenWaitLoad
                          : effects.act == Act::kWaitGroup && effects.group == GroupKind::kWgmma;
  if (filled && !unfilled_.empty()) {
    const auto found = unfilled_.find(&w);
    if (found != unfilled_.end()) {
      for (const Unfilled& one : std::exchange(found->second, {})) fill(w, one);
    }
  }
  if (program_.places[pc].line != 0) ++position_;
}

// The registers of a tcgen05.ld or wgmma, once they hold what was promised.
void NanRecorder::fill(const Warp& w, const Unfilled& unfilled) {
  const std::uint32_t pc = unfilled.pc;
  std::uint32_t event = 0, out = 0;
  for (const Watched& one : watched_[pc]) {
    if (!one.written || full()) continue;
    const std::uint32_t lanes = lanes_of(w, one) & w.group_mask;
    if (lanes == 0) continue;
    if (out == 0)
      event = add(
          {position_, pc, static_cast<std::uint32_t>(linear_index(*w.cta)), w.index, 0, 0, NanLog::kFilled});
    out |= lanes;
    log_.operands.push_back({event, one.reg, lanes, true});
  }
  if (out == 0) return;
  log_.events[event].out = out;
  if (unfilled.from) keep_columns(w, event, *unfilled.from, false);
}

void NanRecorder::keep_columns(const Warp& w, std::uint32_t event, const EventLog::Tmem& t, bool written) {
  const std::uint32_t lane = t.address >> 16, column = t.address & 0xffff;
  for (std::uint32_t c = column; c < column + t.columns; ++c)
    log_.memory.push_back({event, -1, (std::uint64_t{w.cta->rank} * kTmemColumns + c) * kTmemLanes + lane,
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
      const std::uint32_t bytes = watched[i].stride;
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

bool NanRecorder::hit(ElementType type, const std::uint8_t* at) const {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(bytes_of(type)));
  switch (type) {
    case ElementType::kF16:
      return half(bits, infinite_);
    case ElementType::kBf16:
      return brain(bits, infinite_);
    case ElementType::kF32:
    case ElementType::kTf32:
      return beyond(bits, 0x7fffffff, 0x7f800000, infinite_);
    case ElementType::kE4m3:
      return (bits & 0x7f) == 0x7f;
    case ElementType::kE5m2:
      return beyond(bits, 0x7f, 0x7c, infinite_);
    default:
      return false;
  }
}

// How many elements of the ranges are NaN; keeps the first stretches of them.
std::uint32_t NanRecorder::scan(const Cluster& cluster, std::uint32_t event, const std::vector<Range>& ranges,
                                ElementType type, bool written) {
  if (element_bits(type) < 8) return 0;
  const auto size = static_cast<std::uint32_t>(bytes_of(type));
  std::uint32_t count = 0, kept = 0;
  for (const Range& range : ranges) {
    const std::uint8_t* const bytes = host(cluster, range);
    if (bytes == nullptr) continue;
    bool open = false;
    for (std::uint32_t at = 0; at + size <= range.bytes; at += size) {
      const bool is = hit(type, bytes + at);
      count += is;
      if (is && open) log_.memory.back().bytes += size;
      if (is && !open && kept < kMostRanges) {
        ++kept;
        log_.memory.push_back({event, -1, range.address + at, size, static_cast<std::uint32_t>(cluster.index),
                               static_cast<std::uint8_t>(range.space == Space::kShared ? 1 : 0), written});
        open = true;
      } else if (!is) {
        open = false;
      }
    }
  }
  return count;
}

std::uint32_t NanRecorder::scan(const Cluster& cluster, std::uint32_t event,
                                const std::vector<TmemRange>& ranges, ElementType type, bool written) {
  std::uint32_t count = 0;
  for (const TmemRange& range : ranges) {
    if (!cluster.async->has_tmem(range.rank)) continue;
    const TensorMemory& memory = cluster.async->tmem(range.rank);
    for (std::uint32_t c = range.column; c < range.column + range.columns && c < kTmemColumns; ++c) {
      std::uint32_t first = kTmemLanes, last = 0;
      for (std::uint32_t lane = range.lane; lane < range.lane + range.lanes && lane < kTmemLanes; ++lane) {
        const std::uint32_t cell = memory.cell(lane, c);
        std::uint8_t bytes[4];
        std::memcpy(bytes, &cell, 4);
        const bool wide = bytes_of(type) == 4;
        const bool low = !(wide && cell == kUnwritten) && hit(type, bytes);
        const bool high = bytes_of(type) == 2 && hit(type, bytes + 2);
        if (!low && !high) continue;
        ++count;
        first = std::min(first, lane);
        last = lane;
      }
      if (first < kTmemLanes)
        log_.memory.push_back({event, -1, (std::uint64_t{range.rank} * kTmemColumns + c) * kTmemLanes + first,
                               last - first + 1, static_cast<std::uint32_t>(cluster.index), 2, written});
    }
  }
  return count;
}

// Operations are told of before their bytes move: what they read is looked at now, what they write as soon as
// anything else happens.
void NanRecorder::performed(const Cluster& cluster, const AsyncOperation& operation) {
  flush();
  if (full() || operation.issuer.inst == nullptr) return;
  Pending pending;
  pending.cluster = &cluster;
  pending.type = copied_;
  ElementType other = copied_;  // of B
  const auto visitor = [&](const auto* what) {
    using What = std::remove_cvref_t<decltype(*what)>;
    if constexpr (std::is_same_v<What, Wgmma>) {
      pending.footprint = footprint_of(cluster.warps[operation.issuer.warp].cta->rank, *what);
      pending.type = what->a_type;
      other = what->b_type;
    } else if constexpr (!std::is_same_v<What, TensorCommit>) {
      pending.footprint = footprint_of(cluster, *what, operation.lanes);
      if constexpr (std::is_same_v<What, BulkOperation>) {
        const auto kind = what->kind;
        const bool mapped = kind == BulkOperation::Kind::kLoadBox || kind == BulkOperation::Kind::kStoreBox ||
                            kind == BulkOperation::Kind::kReduceBox;
        if (mapped) pending.type = type_of(what->map.type, copied_);
      }
      if constexpr (std::is_same_v<What, TensorOperation>) {
        if (what->kind == TensorOperation::Kind::kMma) {
          pending.type = what->mma.descriptor.a_type;
          other = what->mma.descriptor.b_type;
        }
      }
    }
  };
  std::visit(visitor, operation.what);
  const Footprint& f = pending.footprint;
  if (f.reads.empty() && f.writes.empty() && f.tmem_reads.empty() && f.tmem_writes.empty()) return;
  const Warp& w = cluster.warps[operation.issuer.warp];
  pending.event = add({operation.issuer.position,
                       static_cast<std::uint32_t>(operation.issuer.inst - program_.code.data()),
                       static_cast<std::uint32_t>(linear_index(*w.cta)), w.index, 0, 0, NanLog::kOperation});
  std::uint32_t in = scan(cluster, pending.event, f.reads, pending.type, false);
  if (in == 0 && other != pending.type) in = scan(cluster, pending.event, f.reads, other, false);
  for (const TmemRange& range : f.tmem_reads) {  // what is written as well is D, the rest A
    const bool d = std::any_of(f.tmem_writes.begin(), f.tmem_writes.end(), [&](const TmemRange& written) {
      return written.rank == range.rank && written.column == range.column;
    });
    in += scan(cluster, pending.event, std::vector{range}, d ? ElementType::kF32 : pending.type, false);
  }
  log_.events[pending.event].in = in;
  pending_.push_back(std::move(pending));
}

void NanRecorder::flush() {
  if (pending_.empty()) return;
  for (Pending& one : std::exchange(pending_, {})) {
    std::uint32_t out = scan(*one.cluster, one.event, one.footprint.writes, one.type, true);
    out += scan(*one.cluster, one.event, one.footprint.tmem_writes, ElementType::kF32, true);
    log_.events[one.event].out = out;
    const bool last = one.event + 1 == log_.events.size();
    if (out == 0 && log_.events[one.event].in == 0 && last) log_.events.pop_back();  // nothing to tell
  }
}

}  // namespace sglab::emu
