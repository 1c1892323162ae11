// NaN in what asynchronous operations move and multiply.

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "observe/record/nans.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kUnwritten = 0x7fff7fffu;  // what the machine leaves where nothing was written
constexpr std::uint32_t kMostRanges = 64;          // kept of one operation, in each direction

int bytes_of(ElementType type) {
  return element_bits(type) / 8;
}

// `held`: what the tensor says of itself; `copied`: the kernel's 16-bit type.
ElementType type_of(TensorMapType type, ElementType held, ElementType copied) {
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
      return bytes_of(held) == 2 ? held : copied;
    case TensorMapType::kU8:
      return bytes_of(held) == 1 ? held : ElementType::kS8;
    default:
      return ElementType::kS8;
  }
}

FloatKind kind_of(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return FloatKind::kF16;
    case ElementType::kBf16:
      return FloatKind::kBf16;
    case ElementType::kF32:
    case ElementType::kTf32:
      return FloatKind::kF32;
    case ElementType::kE4m3:
      return FloatKind::kE4m3;
    case ElementType::kE5m2:
      return FloatKind::kE5m2;
    default:
      return FloatKind::kNone;
  }
}

ElementType type_of(FloatKind element) {
  switch (element) {
    case FloatKind::kF16:
      return ElementType::kF16;
    case FloatKind::kBf16:
      return ElementType::kBf16;
    case FloatKind::kF32:
      return ElementType::kF32;
    case FloatKind::kE4m3:
      return ElementType::kE4m3;
    case FloatKind::kE5m2:
      return ElementType::kE5m2;
    default:
      return ElementType::kS8;  // none of these is NaN
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
      const bool is = is_nan(type, bytes + at, infinite_);
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
  const int size = std::max(bytes_of(type), 1);
  for (const TmemRange& range : ranges) {
    if (!cluster.async->has_tmem(range.rank)) continue;
    const TensorMemory& memory = cluster.async->tmem(range.rank);
    for (std::uint32_t c = range.column; c < range.column + range.columns && c < TensorMemory::kColumns;
         ++c) {
      std::uint32_t first = TensorMemory::kLanes, last = 0;
      for (std::uint32_t lane = range.lane; lane < range.lane + range.lanes && lane < TensorMemory::kLanes;
           ++lane) {
        const std::uint32_t cell = memory.cell(lane, c);
        std::uint8_t bytes[4];
        std::memcpy(bytes, &cell, 4);
        bool any = false;
        for (int at = 0; at < 4; at += size) any = any || is_nan(type, bytes + at, infinite_);
        if (!any || (size == 4 && cell == kUnwritten)) continue;
        ++count;
        first = std::min(first, lane);
        last = lane;
      }
      if (first < TensorMemory::kLanes)
        log_.memory.push_back(
            {event, -1,
             (std::uint64_t{range.rank} * TensorMemory::kColumns + c) * TensorMemory::kLanes + first,
             last - first + 1, static_cast<std::uint32_t>(cluster.index), 2, written});
    }
  }
  return count;
}

// What a copy moves: its tensor says so.
ElementType NanRecorder::element_of(const Footprint& footprint) const {
  for (const std::vector<Range>* const ranges : {&footprint.reads, &footprint.writes}) {
    for (const Range& range : *ranges) {
      if (range.space == Space::kShared) continue;
      if (const FloatTypes::Tensor* const tensor = types_.tensor_at(range.address))
        return type_of(tensor->element);
    }
  }
  return copied_;
}

// The launch counts its instructions where it is stepped; here they are counted above.
void NanRecorder::issued(const Cluster& cluster, const AsyncOperation& operation) {
  if (full()) return;
  last_issued_ = {cluster.index, operation.issuer.operation};
  issues_.try_emplace(last_issued_, Issue{position_, {}, false});
}

// Operations are announced before their bytes move: what they read is looked at now, what they write as soon
// as anything else happens.
void NanRecorder::performed(const Cluster& cluster, const AsyncOperation& operation) {
  flush();
  if (full() || operation.issuer.inst == nullptr) return;
  Pending pending;
  pending.cluster = &cluster;
  pending.type = copied_;
  bool plain = true;            // a copy whose bytes nothing but their memory names
  ElementType other = copied_;  // of B
  if (const auto* const wgmma = std::get_if<const Wgmma*>(&operation.what))
    return keep_product(cluster, operation, **wgmma);
  const auto visitor = [&](const auto* what) {
    using What = std::remove_cvref_t<decltype(*what)>;
    if constexpr (!std::is_same_v<What, TensorCommit> && !std::is_same_v<What, Wgmma>) {
      pending.footprint = footprint_of(cluster, *what, operation.lanes);
      if constexpr (std::is_same_v<What, BulkOperation>) {
        const auto kind = what->kind;
        const bool mapped = kind == BulkOperation::Kind::kLoadBox || kind == BulkOperation::Kind::kStoreBox ||
                            kind == BulkOperation::Kind::kReduceBox;
        if (mapped) pending.type = type_of(what->map.type, element_of(pending.footprint), copied_);
        plain = !mapped;
      }
      if constexpr (std::is_same_v<What, TensorOperation>) {
        if (what->kind == TensorOperation::Kind::kMma) {
          plain = false;
          pending.type = what->mma.descriptor.a_type;
          other = what->mma.descriptor.b_type;
          pending.sums = what->mma.descriptor.d_type;
        }
      }
    }
  };
  std::visit(visitor, operation.what);
  const Footprint& f = pending.footprint;
  if (f.reads.empty() && f.writes.empty() && f.tmem_reads.empty() && f.tmem_writes.empty()) return;
  if (plain) other = pending.type = element_of(f);
  for (const Range& range : f.writes) {
    if (range.space == Space::kShared)
      types_.put(cluster, range.address, static_cast<std::uint32_t>(range.bytes), kind_of(pending.type));
  }
  const Warp& w = cluster.warps[operation.issuer.warp];
  pending.event = add({issues_[{cluster.index, operation.issuer.operation}].position,
                       static_cast<std::uint32_t>(operation.issuer.inst - program_.code.data()),
                       static_cast<std::uint32_t>(linear_index(*w.cta)), w.index, 0, 0, NanLog::kOperation});
  std::uint32_t in = scan(cluster, pending.event, f.reads, pending.type, false);
  if (in == 0 && other != pending.type) in = scan(cluster, pending.event, f.reads, other, false);
  for (const TmemRange& range : f.tmem_reads) {  // what is written as well is D, the rest A
    const bool d = std::any_of(f.tmem_writes.begin(), f.tmem_writes.end(), [&](const TmemRange& written) {
      return written.rank == range.rank && written.column == range.column;
    });
    in += scan(cluster, pending.event, std::vector{range}, d ? pending.sums : pending.type, false);
  }
  log_.events[pending.event].in = in;
  pending_.push_back(std::move(pending));
}

void NanRecorder::flush() {
  if (pending_.empty()) return;
  for (Pending& one : std::exchange(pending_, {})) {
    std::uint32_t out = scan(*one.cluster, one.event, one.footprint.writes, one.type, true);
    out += scan(*one.cluster, one.event, one.footprint.tmem_writes, one.sums, true);
    log_.events[one.event].out = out;
    const bool last = one.event + 1 == log_.events.size();
    if (out == 0 && log_.events[one.event].in == 0 && last) log_.events.pop_back();  // nothing to tell
  }
}

}  // namespace sglab::emu
