#include "observe/debug/writers.hpp"

#include <bit>

#include "isa/aperture.hpp"
#include "machine/ops/operands.hpp"
#include "machine/tensor/tmem_transfer.hpp"
#include "observe/debug/operation_sources.hpp"

namespace sglab::emu {
namespace {

// The events of one tick are numbered from one on.
EventOrder after(const Stepper& stepper, EventOrder last) {
  return {stepper.ticks(), last.ticks == stepper.ticks() ? last.count + 1 : 1};
}

bool holds(const Cluster& cluster, const Range& range, const MemoryPlace& place) {
  if (range.space != place.space) return false;
  std::uint64_t begin = range.address;
  if (range.space == Space::kShared) {
    const std::uint32_t rank = rank_of(begin);
    if (rank >= cluster.ctas.size() || linear_index(cluster.ctas[rank]) != place.cta) return false;
    begin = offset_of(begin);
  }
  return place.address >= begin && place.address < begin + range.bytes;
}

bool holds(const Cluster& cluster, const TmemRange& range, const MemoryPlace& place) {
  const std::uint64_t lane = place.address >> 16, column = place.address & 0xffff;
  return place.space == Space::kReg && range.rank < cluster.ctas.size() &&
         linear_index(cluster.ctas[range.rank]) == place.cta && lane >= range.lane &&
         lane < range.lane + range.lanes && column >= range.column && column < range.column + range.columns;
}

bool writes(const Cluster& cluster, const Footprint& footprint, const MemoryPlace& place) {
  for (const Range& range : footprint.writes) {
    if (holds(cluster, range, place)) return true;
  }
  for (const TmemRange& range : footprint.tmem_writes) {
    if (holds(cluster, range, place)) return true;
  }
  return false;
}

FoundWriter issuer_of(const Cluster& cluster, const Issuer& issuer) {
  const Warp& w = cluster.warps[issuer.warp];
  FoundWriter made;
  made.operation = true;
  made.pc = static_cast<std::uint32_t>(issuer.inst - w.code);
  made.cta = linear_index(*w.cta);
  made.warp = w.index;
  made.lanes = issuer.lane >= 0 ? 1u << issuer.lane : 0;
  made.position = issuer.position;
  return made;
}

}  // namespace

WriterSearch::WriterSearch(const Stepper& stepper, MemoryPlace place, EventOrder limit)
    : stepper_(stepper), place_(place), limit_(limit), stores_(store_forms(stepper.program())) {}

EventOrder WriterSearch::next_order() {
  last_ = after(stepper_, last_);
  return last_;
}

void WriterSearch::keep(const Warp& w, const Inst* inst, std::uint32_t lanes, std::int32_t element) {
  attempt_.emplace();
  attempt_->pc = static_cast<std::uint32_t>(inst - w.code);
  attempt_->cta = linear_index(*w.cta);
  attempt_->warp = w.index;
  attempt_->lanes = lanes;
  attempt_->position = stepper_.position();
  attempt_->element = element;
}

void WriterSearch::attempting(const Warp& w, const Inst* inst) {
  attempt_.reset();
  const auto pc = static_cast<std::size_t>(inst - w.code);
  const Effects& effects = w.program->effects[pc];
  if (place_.space == Space::kReg) {
    if (effects.act != Act::kTmemStore || linear_index(*w.cta) != place_.cta) return;
    const std::uint32_t lanes = active_lanes(w, inst);
    if (lanes == 0) return;
    const auto& form = payload<LdStForm>(inst);
    const auto named = static_cast<std::uint32_t>(address_of(w, main_address(inst), std::countr_zero(lanes)));
    const TmemAddress at = in_own_quarter(form, TmemAddress::decode(named), w.index);
    const auto lane = static_cast<int>(place_.address >> 16),
               column = static_cast<int>(place_.address & 0xffff);
    for (int reg = 0; reg < ld_st_registers(form); ++reg) {
      for (int thread = 0; thread < 32; ++thread) {
        const TmemOffset cell = ld_st_cell(form, thread, reg);
        const int first = static_cast<int>(at.column) + cell.column;
        const bool here = column == first || (form.sixteen_bit && column == first + 1);
        if (here && lane == static_cast<int>(at.lane) + cell.lane) return keep(w, inst, 1u << thread, reg);
      }
    }
    return;
  }
  AccessForm form = stores_[pc];
  if (!form.writes || (form.space != place_.space && form.space != Space::kGeneric)) return;
  const bool rows = effects.act == Act::kMatrixRows;
  const LaneAccess access = rows ? shared_access(w, inst, form) : lane_access(w, inst, form, place_.space);
  std::uint32_t hit = 0;
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    std::uint64_t begin = access.address[lane];
    if (place_.space == Space::kShared) {
      const std::uint32_t rank = rank_of(begin);
      if (rank >= w.cluster->ctas.size() || linear_index(w.cluster->ctas[rank]) != place_.cta) continue;
      begin = offset_of(begin);
    }
    if (place_.address >= begin && place_.address < begin + form.bytes) hit |= 1u << lane;
  }
  if (hit != 0) keep(w, inst, hit, -1);
}

void WriterSearch::attempted(const Warp& w, const Inst*, const Inst*) {
  if (!attempt_ || w.retry) return;
  attempt_->order = next_order();
  if (attempt_->order < limit_) found_ = std::move(attempt_);
  attempt_.reset();
}

void WriterSearch::performed(const Cluster& cluster, const AsyncOperation& operation) {
  const EventOrder order = next_order();
  if (!(order < limit_)) return;
  std::optional<FoundWriter> made;
  if (const auto* const bulk = std::get_if<const BulkOperation*>(&operation.what)) {
    if (writes(cluster, footprint_of(cluster, **bulk, 0), place_)) {
      made = issuer_of(cluster, operation.issuer);
      made->sources = sources_of(cluster, **bulk, place_);
    }
  } else if (const auto* const tensor = std::get_if<const TensorOperation*>(&operation.what)) {
    if (writes(cluster, footprint_of(cluster, **tensor, 0), place_)) {
      made = issuer_of(cluster, operation.issuer);
      made->sources = sources_of(cluster, **tensor, place_);
    }
  } else if (const auto* const small = std::get_if<const SmallCopy*>(&operation.what)) {
    for (std::uint32_t rest = operation.lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
      if (!writes(cluster, footprint_of(cluster, **small, 1u << lane), place_)) continue;
      made = issuer_of(cluster, operation.issuer);
      made->lanes = 1u << lane;
      made->sources = sources_of(cluster, **small, lane, place_);
    }
  }
  if (!made) return;
  made->order = order;
  found_ = std::move(made);
}

void WgmmaSearch::issued(const Cluster& cluster, const AsyncOperation& operation) {
  if (number_ != 0 || !std::holds_alternative<const Wgmma*>(operation.what)) return;
  const Warp& w = cluster.warps[operation.issuer.warp];
  if (stepper_.position() != position_ || w.index != place_.warp || linear_index(*w.cta) != place_.cta)
    return;
  cluster_ = &cluster;
  number_ = operation.issuer.operation;
}

void WgmmaSearch::performed(const Cluster& cluster, const AsyncOperation& operation) {
  last_ = after(stepper_, last_);
  if (found_ || &cluster != cluster_ || operation.issuer.operation != number_) return;
  const Wgmma& wgmma = **std::get_if<const Wgmma*>(&operation.what);
  found_ = issuer_of(cluster, operation.issuer);
  found_->warp = place_.warp;
  found_->lanes = 1u << place_.lane;
  found_->position = position_;
  found_->order = last_;
  // A register has two halves, or one number.
  const int lane = static_cast<int>(place_.lane), reg = static_cast<int>(place_.reg);
  const bool halves = wgmma.d_type == ElementType::kF16;
  const int block = halves ? reg / 2 : reg / 4, half = halves ? reg % 2 : reg / 2 % 2;
  const int row = 16 * static_cast<int>(place_.warp % 4) + lane / 4 + 8 * half;
  const int column = 8 * block + 2 * (lane % 4) + (halves ? 0 : reg % 2);
  const std::uint32_t rank = cluster.warps[operation.issuer.warp].cta->rank;
  found_->sources = sources_of(cluster, rank, wgmma, row, column);
  if (halves) {
    for (auto& more : sources_of(cluster, rank, wgmma, row, column + 1))
      found_->sources.push_back(std::move(more));
  }
  for (int i = 0; wgmma.sums != nullptr && i < (halves ? 2 : 1); ++i)
    found_->result.push_back(wgmma.sums->column(column + i)[row]);
}

}  // namespace sglab::emu
