#include "observe/sanitize/tensor.hpp"

#include <algorithm>
#include <utility>

#include "machine/async/engine.hpp"
#include "machine/engine/fault.hpp"
#include "machine/ops/operands.hpp"

namespace sglab::emu {
namespace {

std::uint64_t tmem_address(const TmemRange& range) {
  return std::uint64_t{range.rank} << 32 | range.lane << 16 | range.column;
}

std::string columns_of(std::uint32_t column, std::uint32_t columns) {
  return "columns " + std::to_string(column) + " to " + std::to_string(column + columns - 1) +
         " of tensor memory";
}

bool overlap(std::uint32_t a, std::uint32_t a_count, std::uint32_t b, std::uint32_t b_count) {
  return a < b + b_count && b < a + a_count;
}

}  // namespace

void TensorSanitizer::launched(const Launch& launch) {
  states_.clear();
  launch_ = &launch;
}

void TensorSanitizer::cluster_started(const Cluster& cluster) {
  states_[cluster.index] = {};
  states_[cluster.index].ctas.resize(cluster.ctas.size());
}

void TensorSanitizer::report(const char* kind, std::string message, const Party& at, const Party& other,
                             const char* other_did, std::uint64_t address) {
  Finding finding;
  finding.detector = "tensor";
  finding.kind = kind;
  finding.message = std::move(message);
  finding.at = at;
  finding.other = other;
  finding.other_did = other_did;
  finding.space = "tensor";
  finding.address = address;
  findings.report(std::move(finding));
}

// All tcgen05 instructions of a kernel must name the same group size.
void TensorSanitizer::check_group(const Actor& actor) {
  const int group =
      actor.warp->program->effects[static_cast<std::size_t>(actor.inst - actor.warp->code)].cta_group;
  if (group == 0) return;
  const bool pair = group == 2;
  CtaState& cta = of(actor).ctas[actor.warp->cta->rank];
  Party& own = cta.group[pair ? 1 : 0];
  if (own.cta >= 0) return;
  own = party(actor);
  const Party& other = cta.group[pair ? 0 : 1];
  if (other.cta < 0) return;
  report("cta_group_mixed", "a CTA uses tcgen05 instructions of both group sizes", party(actor), other,
         pair ? "used .cta_group::1" : "used .cta_group::2", 0);
}

void TensorSanitizer::issued(const Actor& actor, const AsyncOp& op) {
  if (op.kind < AsyncOp::Kind::kMma || op.kind > AsyncOp::Kind::kCommit) return;
  check_group(actor);
  if (op.kind != AsyncOp::Kind::kCommit) of(actor).in_flight.emplace(op.id, actor);
}

void TensorSanitizer::performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) {
  of(actor).in_flight.erase(op.id);
  for (const auto* const ranges : {&footprint.tmem_reads, &footprint.tmem_writes}) {
    for (const TmemRange& range : *ranges) check_block(actor, range);
  }
}

// Whether the columns that an operation touches are still allocated when it does so.
void TensorSanitizer::check_block(const Actor& actor, const TmemRange& range) {
  const TensorMemory& memory = actor.warp->cluster->async->tmem(range.rank);
  // Whole units are allocated.
  constexpr std::uint32_t kUnit = TensorMemory::kUnit;
  for (std::uint32_t c = range.column; c < range.column + range.columns; c = (c / kUnit + 1) * kUnit) {
    if (memory.is_allocated(c)) continue;
    const std::vector<Block>& blocks = of(actor).ctas[range.rank].blocks;
    const auto freed = std::find_if(blocks.rbegin(), blocks.rend(), [&](const Block& block) {
      return overlap(c, 1, block.column, block.columns);
    });
    const bool known = freed != blocks.rend();
    return report(known ? "tmem_after_dealloc" : "tmem_unallocated",
                  "an operation touches column " + std::to_string(c) + " of tensor memory, which " +
                      (known ? "has been released" : "was not allocated"),
                  party(actor), known ? freed->dealloc : Party{}, "released it", tmem_address(range));
  }
}

void TensorSanitizer::tensor_memory(const Actor& actor, const TmemUse& use) {
  check_group(actor);
  State& state = of(actor);
  CtaState& cta = state.ctas[use.range.rank];
  const TmemRange& r = use.range;
  switch (use.op) {
    case TmemUse::Op::kAlloc:
      cta.blocks.push_back({r.column, r.columns, party(actor), {}});
      return;
    case TmemUse::Op::kDealloc:
      for (Block& block : cta.blocks) {
        if (block.column == r.column && block.dealloc.cta < 0) block.dealloc = party(actor);
      }
      for (const auto& [id, issuer] : state.in_flight) {
        if (issuer.warp->cta->rank / 2 != r.rank / 2) continue;
        return report("tmem_dealloc_in_flight",
                      columns_of(r.column, r.columns) +
                          " are released while tcgen05 operations are in flight that "
                          "no thread has waited for",
                      party(actor), party(issuer), "issued one", tmem_address(r));
      }
      return;
    case TmemUse::Op::kRelinquish:
      cta.relinquish = party(actor);
      return;
    default:
      return;
  }
}

// tcgen05.st that no tcgen05.wait::st has completed.
void TensorSanitizer::exited(const Actor& actor) {
  const auto& async = actor.warp->cluster->async;
  if (actor.warp->live != 0 || async == nullptr) return;
  const std::vector<PendingStore>& stores = async->tmem_stores(*actor.warp);
  if (stores.empty()) return;
  Actor storer = actor;
  storer.inst = stores.front().inst;
  report("tmem_store_unfinished",
         "a warp exits without waiting (tcgen05.wait::st) for what it stored to tensor memory", party(storer),
         party(actor), "exited", stores.front().address.encode());
}

void TensorSanitizer::explain(const Fault& fault, Finding& finding) {
  if (fault.kind == "tensor_core") {
    finding.detector = "tensor";
    finding.kind = "bad_descriptor";
    return;
  }
  if (fault.kind != "tensor_memory") return;
  finding.detector = "tensor";
  finding.space = "tensor";
  if (fault.pc >= 0) return explain_tmem(finding);
  finding.kind = "tmem_leak";
  for (const auto& [index, state] : states_) {
    for (const CtaState& cta : state.ctas) {
      for (const Block& block : cta.blocks) {
        if (block.dealloc.cta < 0) finding.at = block.alloc, finding.address = block.column;
      }
    }
  }
}

void TensorSanitizer::explain_tmem(Finding& finding) {
  const Program& program = *launch_->program;
  const bool allocates = program.effects[static_cast<std::size_t>(finding.at.pc)].act == Act::kTmemAlloc;
  for (const auto& [index, state] : states_) {
    for (std::size_t rank = 0; rank < state.ctas.size(); ++rank) {
      const CtaState& cta = state.ctas[rank];
      const bool own = std::any_of(std::begin(cta.blocks), std::end(cta.blocks),
                                   [&](const Block& block) { return block.alloc.cta == finding.at.cta; }) ||
                       cta.relinquish.cta == finding.at.cta;
      if (!own) continue;
      if (allocates) {
        finding.kind = "tmem_alloc_refused";
        finding.other = cta.relinquish;
        finding.other_did = "gave up the right to allocate";
      } else {
        for (const Block& block : cta.blocks) {
          if (block.dealloc.cta < 0) continue;
          finding.other = block.dealloc;
          finding.other_did = "released it";
        }
      }
    }
  }
  if (allocates) return;
  if (finding.message.find("accessed by warp") != std::string::npos) {
    finding.kind = "tmem_wrong_lanes";
    finding.other = {};
    return;
  }
  finding.kind = finding.other.cta >= 0 ? "tmem_after_dealloc" : "tmem_unallocated";
}

}  // namespace sglab::emu
