#include "observe/sanitize/memory.hpp"

#include <algorithm>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/ops/operands.hpp"
#include "machine/tensor/tmem_transfer.hpp"

namespace sglab::emu {

MemorySanitizer::MemorySanitizer(Findings& findings, std::shared_ptr<MarkedMemory> marked)
    : Detector(findings), marked_(std::move(marked)), taint_(findings) {}

void MemorySanitizer::launched(const Launch& launch) {
  launch_ = &launch;
  memories_.clear();
  cached_index_ = ~std::uint64_t{0};
  seen_.clear();
  found_bad_ = false;
  taint_.launched(*launch.program);
}

void MemorySanitizer::cluster_started(const Cluster& cluster) {
  Memories& m = memories_[cluster.index];
  m = {};
  const Program& program = *cluster.program;
  for (std::size_t rank = 0; rank < cluster.ctas.size(); ++rank) {
    if (spare_.empty()) spare_.emplace_back();
    ByteFlags& flags = m.shared.emplace_back(std::move(spare_.back()));
    spare_.pop_back();
    flags.reset(cluster.shared_bytes);
    flags.set(0, kSharedReserved);
  }
  m.tensor.resize(cluster.ctas.size());
  m.derived.resize(cluster.ctas.size());
  for (std::size_t slot = 0; slot < cluster.warps.size() && program.local_bytes != 0; ++slot) {
    ByteFlags& flags = m.local.emplace_back(std::size_t{32} * program.local_bytes);
    // Calls copy parameters and results without being seen.
    for (const ProgramFunction& function : program.functions) {
      for (const auto* const slots : {&function.parameters, &function.returns}) {
        for (const ParameterSlot& one : *slots) {
          for (std::uint64_t lane = 0; lane < 32; ++lane)
            flags.set(lane * program.local_bytes + one.offset, one.bytes);
        }
      }
    }
  }
  taint_.cluster_started(cluster);
}

void MemorySanitizer::cluster_finished(const Cluster& cluster) {
  for (ByteFlags& flags : of(cluster).shared) spare_.push_back(std::move(flags));
  memories_.erase(cluster.index);
  cached_index_ = ~std::uint64_t{0};
  taint_.cluster_finished(cluster);
}

CellFlags& MemorySanitizer::cells(const Cluster& cluster, std::uint32_t rank) {
  std::unique_ptr<CellFlags>& flags = of(cluster).tensor[rank];
  if (flags == nullptr) flags = std::make_unique<CellFlags>();
  return *flags;
}

bool MemorySanitizer::initialised(const Warp& w, Space space, int lane, std::uint64_t address,
                                  std::uint32_t bytes) {
  switch (space) {
    case Space::kShared:
      return of(w).shared[rank_of(address)].all(offset_of(address), bytes);
    case Space::kLocal:
      return local_of(w).all(static_cast<std::uint64_t>(lane) * w.program->local_bytes + address, bytes);
    case Space::kGlobal:
      return marked_ == nullptr || marked_->empty() || marked_->initialised(address, bytes);
    default:
      return true;
  }
}

void MemorySanitizer::written(const Warp& w, Space space, int lane, std::uint64_t address,
                              std::uint32_t bytes) {
  switch (space) {
    case Space::kShared:
      return of(w).shared[rank_of(address)].set(offset_of(address), bytes);
    case Space::kLocal:
      return local_of(w).set(static_cast<std::uint64_t>(lane) * w.program->local_bytes + address, bytes);
    case Space::kGlobal:
      if (marked_ != nullptr && !marked_->empty()) marked_->written(address, bytes);
      return;
    default:
      return;
  }
}

void MemorySanitizer::accessed(const Actor& actor, const Access& access) {
  const auto pc = static_cast<std::uint32_t>(actor.inst - actor.warp->code);
  if (access.space == Space::kGlobal && (marked_ == nullptr || marked_->empty()) &&
      !taint_.follows(*actor.warp, pc))
    return;
  if (access.reads) find_bad(actor, access);
  if (access.writes) {
    for (std::uint32_t rest = access.lanes; rest != 0;) {
      const int lane = first_lane(rest);
      const std::uint32_t count = access.space == Space::kLocal ? 1 : access.row(rest);
      written(*actor.warp, access.space, lane, access.address[lane], count * access.bytes);
      rest = Access::after(rest, count);
    }
  }
  if (!follows(*actor.warp, pc)) return;
  SeenAccess& seen = seen_.emplace_back(SeenAccess{access, {}});
  std::copy_n(access.address, 32, seen.address);
}

void MemorySanitizer::find_bad(const Actor& actor, const Access& access) {
  const Warp& w = *actor.warp;
  for (std::uint32_t rest = access.lanes, good; rest != 0; rest &= ~good) {
    const int lane = first_lane(rest);
    const std::uint64_t address = access.address[lane];
    const std::uint32_t count = access.space == Space::kLocal ? 1 : access.row(rest);
    good = rest & ~Access::after(rest, count);
    if (count > 1 && initialised(w, access.space, lane, address, count * access.bytes)) continue;
    good = 1u << lane;
    if (initialised(w, access.space, lane, address, access.bytes)) continue;
    if (!found_bad_) std::fill_n(bad_, 32, 0u);
    found_bad_ = true;
    for (std::uint32_t byte = 0; byte < access.bytes && byte < 32; ++byte) {
      if (!initialised(w, access.space, lane, address + byte, 1)) bad_[lane] |= 1u << byte;
    }
  }
}

void MemorySanitizer::performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) {
  judge(actor, op, footprint);
  const Cluster& cluster = *actor.warp->cluster;
  for (const Range& range : footprint.writes)
    written(*actor.warp, range.space, 0, range.address, range.bytes);
  for (const TmemRange& range : footprint.tmem_writes) {
    if (op.kind == AsyncOp::Kind::kMma) {
      product_written(actor, *op.tensor, range);
      continue;
    }
    CellFlags& flags = cells(cluster, range.rank);
    for (std::uint32_t c = range.column; c < range.column + range.columns; ++c)
      flags.set(c, range.lane, range.lanes);
  }
}

const Range* MemorySanitizer::find_unwritten(const Actor& actor, const Footprint& footprint) {
  std::vector<ByteFlags>& shared = of(*actor.warp).shared;
  for (const Range& range : footprint.reads) {
    if (range.space == Space::kShared &&
        shared[rank_of(range.address)].all(offset_of(range.address), range.bytes))
      continue;
    if (!initialised(*actor.warp, range.space, 0, range.address, range.bytes)) return &range;
  }
  return nullptr;
}

void MemorySanitizer::judge(const Actor& actor, const AsyncOp& op, const Footprint& footprint) {
  const auto report = [&](auto fill) {
    Finding finding;
    finding.detector = "memory";
    finding.kind = "uninitialised_read";
    finding.at = party(actor);
    fill(finding);
    findings.report(std::move(finding));
  };
  const Range* const unwritten = find_unwritten(actor, footprint);
  if (op.kind == AsyncOp::Kind::kMma) {
    return taint_product(actor, *op.tensor, footprint, unwritten);
  } else if (unwritten != nullptr) {
    return report([&](Finding& finding) {
      finding.space = name_of(unwritten->space);
      finding.address = unwritten->address;
      finding.bytes = unwritten->bytes;
      finding.message = "an asynchronous operation reads " + std::to_string(unwritten->bytes) + " bytes of " +
                        finding.space + " memory at " + hex(unwritten->address) +
                        ", not all of which were written";
    });
  } else if (any_derived(of(*actor.warp))) {
    taint_moved(actor, op, footprint);
  }
  for (const TmemRange& range : footprint.tmem_reads) {
    CellFlags& flags = cells(*actor.warp->cluster, range.rank);
    for (std::uint32_t c = range.column; c < range.column + range.columns; ++c) {
      if (flags.all(c, range.lane, range.lanes)) continue;
      return report([&](Finding& finding) {
        finding.space = "tensor";
        finding.address = std::uint64_t{range.rank} << 32 | range.lane << 16 | c;
        finding.message = "the operation reads column " + std::to_string(c) + " of tensor memory, lanes " +
                          std::to_string(range.lane) + " to " + std::to_string(range.lane + range.lanes - 1) +
                          ", which was not written since its allocation";
      });
    }
  }
}

// Objects are words of shared memory like others; that they are initialised is the barrier sanitizer's
// business.
void MemorySanitizer::mbarrier(const Actor& actor, const MbarrierEvent& event) {
  written(*actor.warp, Space::kShared, 0, event.address, 8);
}

void MemorySanitizer::tensor_memory(const Actor& actor, const TmemUse& use) {
  tmem_use_ = use;
  CellFlags& flags = cells(*actor.warp->cluster, use.range.rank);
  const TmemRange& r = use.range;
  switch (use.op) {
    case TmemUse::Op::kAlloc:
      for (std::uint32_t c = r.column; c < r.column + r.columns; ++c) flags.clear(c, 0, TensorMemory::kLanes);
      forget_derived(*actor.warp->cluster, {r.rank, 0, TensorMemory::kLanes, r.column, r.columns});
      return;
    case TmemUse::Op::kStore: {
      const auto& form = payload<LdStForm>(actor.inst);
      for (int reg = 0; reg < ld_st_registers(form); ++reg) {
        if (form.shape == LdStShape::k32x32b && !form.sixteen_bit) {
          flags.set(r.column + static_cast<std::uint32_t>(reg), r.lane, 32);
          forget_derived(*actor.warp->cluster,
                         {r.rank, r.lane, 32, r.column + static_cast<std::uint32_t>(reg), 1});
          continue;
        }
        for (int thread = 0; thread < 32; ++thread) {
          const TmemOffset at = ld_st_cell(form, thread, reg);
          const auto lane = r.lane + static_cast<std::uint32_t>(at.lane);
          const auto column = r.column + static_cast<std::uint32_t>(at.column);
          flags.set(column, lane, 1);
          if (form.sixteen_bit) flags.set(column + 1, lane, 1);
          forget_derived(*actor.warp->cluster, {r.rank, lane, 1, column, form.sixteen_bit ? 2u : 1u});
        }
      }
      return;
    }
    case TmemUse::Op::kLoad:
      for (std::uint32_t c = r.column; c < r.column + r.columns && !found_bad_; ++c)
        found_bad_ = !flags.all(c, r.lane, r.lanes);
      found_bad_ = found_bad_ || derived(*actor.warp->cluster, r).has_value();
      return;
    default:
      return;
  }
}

}  // namespace sglab::emu
