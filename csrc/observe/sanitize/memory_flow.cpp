#include <algorithm>

#include "machine/ops/operands.hpp"
#include "machine/program/builder.hpp"
#include "machine/tensor/matrix_move.hpp"
#include "observe/sanitize/memory.hpp"

// How taint gets from memory into registers and back.
namespace sglab::emu {
namespace {

using Rule = Taint::Rule;

bool is_value(const Mention& m) {
  return !m.definition && m.field != static_cast<std::uint16_t>(Field::kGuard) &&
         m.field != static_cast<std::uint16_t>(Field::kA);
}

// Which element of a vector it is, if the instruction has one.
unsigned element_of(const Mention& m) {
  constexpr auto kFirst = static_cast<std::uint16_t>(Field::kExtra);
  return m.field < kFirst ? 0u : m.field - kFirst;
}

}  // namespace

void MemorySanitizer::flow(const Actor& actor, std::uint32_t group) {
  switch (taint_.rule(static_cast<std::uint32_t>(actor.inst - actor.warp->code))) {
    case Rule::kAccess:
      flow_access(actor, group);
      break;
    case Rule::kMatrixRows:
      flow_matrix_rows(actor);
      break;
    case Rule::kTmemLoad:
    case Rule::kTmemStore:
      flow_tmem(actor,
                taint_.rule(static_cast<std::uint32_t>(actor.inst - actor.warp->code)) == Rule::kTmemLoad);
      break;
    default:
      taint_.flow(actor, group);
      if (actor.warp->program->effects[static_cast<std::size_t>(actor.inst - actor.warp->code)].act ==
          Act::kMatrixTile)
        flow_tile(actor);
  }
  seen_.clear();
  if (found_bad_) std::fill_n(bad_, 32, 0u);
  found_bad_ = begins_ = false;
}

void MemorySanitizer::warp_synced(const Actor& actor, std::uint32_t all, bool memory) {
  if (memory) return;
  if (all != actor.lanes) taint_.meet(actor, all);
  const bool absent =
      taint_.rule(pc_of(actor)) == Rule::kShuffle && shuffles_ && taint_.found_absent(actor, all);
  begins_ = absent || all != actor.lanes;
}

void MemorySanitizer::flow_access(const Actor& actor, std::uint32_t group) {
  const Warp& w = *actor.warp;
  const auto [first, last] = taint_.mentions(static_cast<std::uint32_t>(actor.inst - w.code));
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) continue;
    if (m->field == static_cast<std::uint16_t>(Field::kGuard)) {
      taint_.decides(actor, *m, group, "decides whether memory is accessed");
    } else if (m->field == static_cast<std::uint16_t>(Field::kA)) {
      taint_.decides(actor, *m, actor.lanes, "is used as an address");
    }
  }
  flow_stored(actor);
  flow_loaded(actor);
}

void MemorySanitizer::flow_stored(const Actor& actor) {
  const Warp& w = *actor.warp;
  const auto pc = static_cast<std::uint32_t>(actor.inst - w.code);
  const auto [first, last] = taint_.mentions(pc);
  const std::uint32_t each = type_bytes(actor.warp->program->effects[pc].type);
  for (const Mention* m = first; m != last; ++m) {
    if (!is_value(*m)) continue;
    for (const SeenAccess& seen : seen_) {
      const Access& access = seen.access;
      const std::uint32_t begin = element_of(*m) * each;
      if (!access.atomic && begin >= access.bytes) continue;  // a cache policy
      const Taint::Mask mask = taint_.stored(w, *m, each);
      const bool kept = !access.atomic && (access.space == Space::kShared || access.space == Space::kLocal);
      if (kept)
        taint_stored(w, seen, begin, each, mask);
      else
        taint_.decides(actor, *m, access.lanes & mask.lanes(), "is written to global memory");
    }
  }
}

void MemorySanitizer::flow_loaded(const Actor& actor) {
  const Warp& w = *actor.warp;
  const auto pc = static_cast<std::uint32_t>(actor.inst - w.code);
  const auto [first, last] = taint_.mentions(pc);
  if (std::none_of(first, last, [](const Mention& m) { return m.definition; })) return;
  Taint::Mask in;
  if (found_bad_) {
    const Access& access = seen_.front().access;
    const int lane = first_lane(access.lanes);
    int bad_lane = lane;
    while (bad_lane < 31 && bad_[bad_lane] == 0) ++bad_lane;
    in.origin = taint_.loaded(actor, name_of(access.space), seen_.front().address[bad_lane], access.bytes);
  }
  const Type type = actor.warp->program->effects[pc].type;
  const std::uint32_t each = type_bytes(type);
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition) continue;
    const std::uint32_t begin = element_of(*m) * each;
    for (unsigned part = 0; part < Taint::Mask::kParts; ++part) {
      const auto bytes = Taint::bytes_of_part(part, each);
      in.part[part] = found_bad_ ? bad_lanes(begin + bytes.begin, begin + bytes.end) : 0;
    }
    taint_.assign(w, *m, actor.lanes, taint_.loaded_into(*m, type, in));
  }
}

// Lanes that loaded a byte of [begin, end) of their access that was never written.
std::uint32_t MemorySanitizer::bad_lanes(std::uint32_t begin, std::uint32_t end) const {
  std::uint32_t lanes = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t byte = begin; byte < end && byte < 32; ++byte)
      lanes |= (bad_[lane] >> byte & 1u) << lane;
  }
  return lanes;
}

// A tainted value makes the bytes that it is stored to uninitialised again.
void MemorySanitizer::taint_stored(const Warp& w, const SeenAccess& seen, std::uint32_t begin,
                                   std::uint32_t bytes, Taint::Mask mask) {
  for (unsigned part = 0; part < Taint::Mask::kParts; ++part) {
    const auto lost = Taint::bytes_of_part(part, bytes);
    for (std::uint32_t rest = seen.access.lanes & mask.part[part]; rest != 0; rest &= rest - 1) {
      const int lane = first_lane(rest);
      const std::uint64_t address = seen.address[lane] + begin + lost.begin;
      const std::uint32_t count = lost.end - lost.begin;
      if (seen.access.space == Space::kShared)
        of(w).shared[rank_of(address)].clear(offset_of(address), count);
      else if (seen.access.space == Space::kLocal)
        local_of(w).clear(static_cast<std::uint64_t>(lane) * w.program->local_bytes + address, count);
    }
  }
}

// Which lanes get a matrix row's elements: four for rows as they are, eight or all when transposed.
void MemorySanitizer::flow_matrix_rows(const Actor& actor) {
  const Warp& w = *actor.warp;
  const auto [first, last] = taint_.mentions(static_cast<std::uint32_t>(actor.inst - w.code));
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition && m->field == static_cast<std::uint16_t>(Field::kA))
      taint_.decides(actor, *m, actor.lanes, "is used as an address");
  }
  Taint::Mask in;
  if (found_bad_) {
    int row = 0;
    while (row < 31 && bad_[row] == 0) ++row;
    in.origin = taint_.loaded(actor, "shared", seen_.front().address[row], 16);
  }
  const auto& move = payload<MatrixMove>(actor.inst);
  const bool plain = move.shape == MatrixShape::k8x8B16, transposed = move.transposed;
  std::uint32_t any = 0;
  for (int row = 0; row < 32 && found_bad_; ++row) any |= (bad_[row] != 0 ? 1u : 0u) << row;
  unsigned matrix = 0;
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition) continue;
    std::uint32_t lanes = any != 0 && !plain ? 0xffffffffu : 0;
    for (unsigned row = 0; row < 8 && plain; ++row) {
      if ((any >> (8 * matrix + row) & 1u) != 0)
        lanes |= transposed ? 0x11111111u << row / 2 : 0xfu << 4 * row;
    }
    taint_.assign(w, *m, 0xffffffffu, Taint::Mask::all(lanes, in.origin));
    ++matrix;
  }
}

// What wmma.load brings is as good as the worst of its elements.
void MemorySanitizer::flow_tile(const Actor& actor) {
  const auto [first, last] = taint_.mentions(static_cast<std::uint32_t>(actor.inst - actor.warp->code));
  Taint::Mask in;
  if (found_bad_ && !seen_.empty()) {
    int lane = 0;
    while (lane < 31 && bad_[lane] == 0) ++lane;
    const SeenAccess& seen = seen_.front();
    const auto origin =
        taint_.loaded(actor, name_of(seen.access.space), seen.address[lane], seen.access.bytes);
    in = Taint::Mask::all(0xffffffffu, origin);
  }
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) taint_.assign(*actor.warp, *m, 0xffffffffu, in);
  }
}

void MemorySanitizer::flow_tmem(const Actor& actor, bool loads) {
  const Warp& w = *actor.warp;
  const auto [first, last] = taint_.mentions(static_cast<std::uint32_t>(actor.inst - w.code));
  const auto& form = payload<LdStForm>(actor.inst);
  CellFlags& flags = cells(*w.cluster, w.cta->rank);
  const DerivedCells* const derived = of(w).derived[w.cta->rank].get();
  const TmemRange& r = tmem_use_.range;
  int reg = 0;
  for (const Mention* m = first; m != last; ++m) {
    if (!m->definition && m->field < static_cast<std::uint16_t>(Field::kExtra)) {
      taint_.decides(actor, *m, actor.lanes, "is used as an address");
      continue;
    }
    if (m->definition != loads) continue;
    const Taint::Mask stored = loads ? Taint::Mask{} : taint_.of(w, *m);
    std::uint32_t bad = 0;
    const std::uint32_t* computed = nullptr;  // where a cell's unknown value comes from
    for (int thread = 0; thread < 32; ++thread) {
      const TmemOffset at = ld_st_cell(form, thread, reg);
      const auto lane = r.lane + static_cast<std::uint32_t>(at.lane);
      const auto column = r.column + static_cast<std::uint32_t>(at.column);
      if (!loads) {
        if ((stored.lanes() >> thread & 1u) != 0)
          derive(*w.cluster, {r.rank, lane, 1, column, form.sixteen_bit ? 2u : 1u}, stored.origin);
      } else if (!flags.at(column, lane) || (form.sixteen_bit && !flags.at(column + 1, lane))) {
        bad |= 1u << thread;
      } else if (derived != nullptr) {
        for (std::uint32_t c = column; c < column + (form.sixteen_bit ? 2u : 1u); ++c) {
          if (!derived->cells.at(c, lane)) continue;
          bad |= 1u << thread;
          computed = &derived->origin[c];
        }
      }
    }
    if (loads) {
      const std::uint64_t address = std::uint64_t{r.rank} << 32 | r.lane << 16 | r.column;
      const std::uint32_t origin = bad == 0 ? 0
                                   : computed != nullptr
                                       ? *computed
                                       : taint_.loaded(actor, "tensor", address, 4ull * r.columns);
      taint_.assign(w, *m, 0xffffffffu, Taint::Mask::all(bad, origin));
    }
    ++reg;
  }
}

}  // namespace sglab::emu
