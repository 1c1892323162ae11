#include <algorithm>
#include <cstring>
#include <optional>

#include "isa/extra.hpp"
#include "machine/ops/boolean.hpp"
#include "machine/ops/operands.hpp"
#include "observe/sanitize/taint.hpp"

// What the parts of a result have from the parts of a source: compilers pack a value with one that was
// never written, and take the first out again.
namespace sglab::emu {
namespace {

using Mask = Taint::Mask;

// Whether a byte of a register is in one of its quarters, or has it in itself.
bool meets(unsigned byte, unsigned bytes, unsigned part) {
  const auto [begin, end] = Taint::bytes_of_part(part, bytes);
  return begin <= byte && byte < end;
}

// Tainted lanes of some bytes of a register, bit n for byte n.
std::uint32_t lanes_of(const Mask& mask, unsigned bytes, std::uint32_t which) {
  std::uint32_t lanes = 0;
  for (unsigned byte = 0; byte < bytes; ++byte) {
    if ((which >> byte & 1u) == 0) continue;
    for (unsigned part = 0; part < Mask::kParts; ++part)
      lanes |= meets(byte, bytes, part) ? mask.part[part] : 0;
  }
  return lanes;
}

// `sources(i)`: which bytes of the source byte i of the result depends on.
template <class F>
Mask moved(const Mask& mask, unsigned source_bytes, unsigned result_bytes, F sources) {
  Mask result{{}, mask.origin};
  for (unsigned byte = 0; byte < result_bytes; ++byte) {
    const std::uint32_t lanes = lanes_of(mask, source_bytes, sources(byte));
    for (unsigned part = 0; part < Mask::kParts; ++part)
      result.part[part] |= meets(byte, result_bytes, part) ? lanes : 0;
  }
  return result;
}

// The value of an operand that is the same in all lanes.
std::optional<std::uint64_t> constant(const Warp& w, Ref ref, unsigned bytes) {
  if ((ref & kConstantRef) == 0) return std::nullopt;
  std::uint64_t value = 0;
  std::memcpy(&value, w.bank[1] + (ref & ~kConstantRef), bytes);
  return value;
}

// cvt cuts its source to the one type, extends it, cuts that to the other, and extends it to the register.
Mask converted(const Mask& mask, Type to, Type from, unsigned source_bytes, unsigned result_bytes) {
  const unsigned read = type_bytes(from), kept = type_bytes(to);
  if (is_float(to)) return Mask::all(lanes_of(mask, source_bytes, (1u << read) - 1), mask.origin);
  return moved(mask, source_bytes, result_bytes, [&](unsigned byte) {
    if (byte >= kept) {
      if (!is_signed(to)) return 0u;
      byte = kept - 1;
    }
    if (byte >= read) {
      if (!is_signed(from)) return 0u;
      byte = read - 1;
    }
    return 1u << byte;
  });
}

Mask shifted(const Mask& mask, bool left, bool sign, unsigned bytes, std::uint64_t by) {
  return moved(mask, bytes, bytes, [&](unsigned byte) {
    std::uint32_t from = 0;
    for (unsigned bit = 8 * byte; bit < 8 * byte + 8; ++bit) {
      const std::uint64_t last = 8 * bytes - 1;
      if (left && bit >= by) from |= 1u << (bit - by) / 8;
      if (!left && bit + by <= last) from |= 1u << (bit + by) / 8;
      if (!left && bit + by > last && sign) from |= 1u << last / 8;
    }
    return from;
  });
}

std::uint64_t value_of(const Warp& w, Ref ref, unsigned bytes, int lane) {
  return bytes == 2 ? lanes16(w, ref)[lane] : bytes == 4 ? lanes32(w, ref)[lane] : lanes64(w, ref)[lane];
}

// The lanes in which every bit of a quarter is `bit`.
Mask filled(const Warp& w, Ref ref, unsigned bytes, bool bit) {
  const unsigned bits = 8 * bytes / Mask::kParts;
  const std::uint64_t quarter = (std::uint64_t{1} << bits) - 1, other = bit ? ~std::uint64_t{0} : 0;
  Mask result;
  for (int lane = 0; lane < 32; ++lane) {
    const std::uint64_t differs = value_of(w, ref, bytes, lane) ^ other;
    for (unsigned part = 0; part < Mask::kParts; ++part)
      result.part[part] |= ((differs >> part * bits & quarter) == 0 ? 1u : 0u) << lane;
  }
  return result;
}

// lop3's result; bit k of the table for a, b, c that are bits 2, 1, 0 of k.
std::uint32_t table_value(std::int64_t table, const std::uint32_t (&operands)[3]) {
  std::uint32_t result = 0;
  for (unsigned k = 0; k < 8; ++k) {
    if ((table >> k & 1) == 0) continue;
    std::uint32_t here = ~0u;
    for (unsigned i = 0; i < 3; ++i) here &= (k >> (2 - i) & 1u) != 0 ? operands[i] : ~operands[i];
    result |= here;
  }
  return result;
}

}  // namespace

// What one operand decides alone, whatever the others are, is known: zeros decide an `and`, ones an `or`.
// Compilers make `if (outside || loaded != 0)` one `or.pred` of a value that only lanes inside have loaded.
void Taint::look_at_logic(const Warp& w, const Inst* inst) {
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  const auto [first, last] = mentions(pc);
  logic_[0] = logic_[1] = {};
  LogicSources from;
  const Mention* result = nullptr;
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition) {
      if (result == nullptr) result = m;
    } else if (m->field != static_cast<std::uint16_t>(Field::kGuard)) {
      const auto operand = static_cast<std::size_t>(m->field) - static_cast<std::size_t>(Field::kA);
      from.unknown[std::min<std::size_t>(operand, 3)].add(of(w, *m));
      if (m->field == static_cast<std::uint16_t>(Field::kC)) from.compares = m->predicate;
    }
  }
  if (result == nullptr) return;
  const Value value = program_->effects[pc].value;
  if (value == Value::kAnd || value == Value::kOr) return combine(w, inst, from, *result);
  if (from.compares) return compare(w, inst, from, *result);
  look_up(w, inst, from);
}

void Taint::combine(const Warp& w, const Inst* inst, const LogicSources& from, const Mention& result) {
  const bool ones = program_->effects[static_cast<std::size_t>(inst - w.code)].value == Value::kOr;
  const Ref operands[] = {inst->a, inst->b};
  for (int i = 0; i < 2; ++i) {
    Mask left = from.unknown[1 - i];
    if (left.lanes() == 0) continue;  // nothing that this one could decide
    const std::uint32_t holds = result.predicate ? predicate_lanes(w, operands[i]) : 0;
    const Mask decided = result.predicate ? Mask::all(ones ? holds : ~holds, 0)
                                          : filled(w, operands[i], bytes_of(result), ones);
    for (unsigned part = 0; part < Mask::kParts; ++part)
      left.part[part] &= ~(decided.part[part] & ~from.unknown[i].part[part]);
    logic_[0].add(left);
  }
}

// setp and set with a predicate; of packed halves, setp gives each a predicate of its own.
void Taint::compare(const Warp& w, const Inst* inst, const LogicSources& from, const Mention& result) {
  const Type type = program_->effects[static_cast<std::size_t>(inst - w.code)].type;
  const bool ones = (inst->imm & kBooleanMask) == kBooleanOr,
             pair = type == Type::kF16x2 || type == Type::kBf16x2;
  Mask compared = from.unknown[0];
  compared.add(from.unknown[1]);
  const std::uint32_t c = predicate_lanes(w, inst->c), unknown = from.unknown[2].lanes();
  const std::uint32_t decided = (ones ? c : ~c) & ~unknown;
  // What the comparison alone gives. The same lanes' results come to the same places when it is executed.
  std::uint32_t holds[2] = {};
  if (unknown != 0 && result.predicate) {
    const std::uint32_t d = w.predicates[inst->d], target = w.predicates[inst->target];
    Inst alone = *inst;
    alone.imm &= ~static_cast<std::int64_t>(kBooleanMask);
    alone.body(const_cast<Warp&>(w), &alone);
    holds[0] = w.predicates[inst->d], holds[1] = w.predicates[inst->target];
    w.predicates[inst->d] = d, w.predicates[inst->target] = target;
  }
  const std::uint32_t origin = unknown != 0 ? from.unknown[2].origin : compared.origin;
  if (!result.predicate) {
    if (!pair) compared = Mask::all(compared.lanes(), compared.origin);
    logic_[0] =
        Mask::halves((compared.low() & ~decided) | unknown, (compared.high() & ~decided) | unknown, origin);
    return;
  }
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t open = !pair ? compared.lanes() : i == 0 ? compared.low() : compared.high();
    const std::uint32_t alone = (ones ? holds[i] : ~holds[i]) & ~open;
    logic_[i] = Mask::all((open & ~decided) | (unknown & ~alone), origin);
  }
}

// lop3: what the table gives for all that the unknown bytes could be. Of lop3.and and lop3.or, d != 0 is
// known if d is, or if a known bit of it is one.
void Taint::look_up(const Warp& w, const Inst* inst, const LogicSources& from) {
  Mask any;
  for (const Mask& unknown : from.unknown) any.add(unknown);
  if (any.lanes() == 0) return;
  const bool predicate = inst->extra != nullptr && !inst->extra->refs.empty();
  const bool ones = (inst->imm & kTableOr) != 0;
  const Ref operands[] = {inst->a, inst->b, inst->c};
  std::uint32_t some = 0, open = 0;
  for (int lane = 0; lane < 32; ++lane) {
    std::uint32_t given[3], unknown[3];
    for (int i = 0; i < 3; ++i) {
      given[i] = lanes32(w, operands[i])[lane];
      unknown[i] = 0;
      for (unsigned part = 0; part < Mask::kParts; ++part)
        unknown[i] |= (from.unknown[i].part[part] >> lane & 1u) * (0xffu << 8 * part);
    }
    const std::uint32_t value = table_value(inst->imm, given);
    std::uint32_t differs = 0;
    for (unsigned flip = 1; flip < 8; ++flip) {
      std::uint32_t other[3];
      for (unsigned i = 0; i < 3; ++i) other[i] = given[i] ^ ((flip >> i & 1u) != 0 ? unknown[i] : 0);
      differs |= value ^ table_value(inst->imm, other);
    }
    for (unsigned part = 0; part < Mask::kParts; ++part)
      logic_[0].part[part] |= ((differs >> 8 * part & 0xff) != 0 ? 1u : 0u) << lane;
    some |= (value != 0 ? 1u : 0u) << lane;
    open |= (differs != 0 && (value & ~differs) == 0 ? 1u : 0u) << lane;
  }
  logic_[0].origin = any.origin;
  if (!predicate) return;
  const std::uint32_t q = predicate_lanes(w, inst->extra->refs[0]), unknown = from.unknown[3].lanes();
  const std::uint32_t by_q = (ones ? q : ~q) & ~unknown, by_value = (ones ? some : ~some) & ~open;
  logic_[1] = Mask::all((open & ~by_q) | (unknown & ~by_value), any.origin);
}

unsigned Taint::bytes_of(const Mention& m) {
  if (register_bytes_.empty()) {
    register_bytes_.assign(program_->register_bytes / kSlotUnit, 0);
    for (const ProgramFunction& function : program_->functions) {
      for (const RegisterSlot& slot : function.slots)
        register_bytes_[slot.place / kSlotUnit] = static_cast<std::uint8_t>(slot.lane_bytes);
    }
  }
  return m.predicate ? 1 : register_bytes_[m.place / kSlotUnit];
}

Taint::Mask Taint::stored(const Warp& w, const Mention& source, std::uint32_t bytes) {
  const Mask mask = of(w, source);
  const unsigned width = bytes_of(source);
  if (bytes >= width) return mask;
  return moved(mask, width, bytes, [](unsigned byte) { return 1u << byte; });
}

Taint::Mask Taint::loaded_into(const Mention& destination, Type element, Mask mask) {
  const unsigned bytes = type_bytes(element), width = bytes_of(destination);
  if (bytes >= width) return mask;
  return moved(mask, bytes, width, [&](unsigned byte) {
    return byte < bytes ? 1u << byte : is_signed(element) ? 1u << (bytes - 1) : 0u;
  });
}

Taint::Mask Taint::taken(const Actor& actor, const Mention& source, unsigned result_bytes) {
  const Warp& w = *actor.warp;
  const Effects& how = program_->effects[static_cast<std::size_t>(actor.inst - w.code)];
  const Mask mask = of(w, source);
  if (mask.lanes() == 0) return mask;
  const unsigned bytes = bytes_of(source);
  const bool is_a = source.field == static_cast<std::uint16_t>(Field::kA);
  const Mask all = Mask::all(mask.lanes(), mask.origin);
  switch (how.taint) {
    case Rule::kConvert:
      return converted(mask, how.to, how.type, bytes, result_bytes);
    case Rule::kConvertPair:
      return is_a ? Mask::halves(0, mask.lanes(), mask.origin) : Mask::halves(mask.lanes(), 0, mask.origin);
    case Rule::kHalves:
      return Mask::halves(mask.low(), mask.high(), mask.origin);
    case Rule::kCarries: {
      Mask carried = mask;
      for (unsigned part = 1; part < Mask::kParts; ++part) carried.part[part] |= carried.part[part - 1];
      return carried;
    }
    case Rule::kShiftLeft:
    case Rule::kShiftRight: {
      const auto by = constant(w, actor.inst->b, 4);
      if (!is_a || !by) return all;
      return shifted(mask, how.taint == Rule::kShiftLeft, is_signed(how.type), bytes, *by);
    }
    case Rule::kPermute: {
      const auto selector = constant(w, actor.inst->c, 4);
      if (!selector) return all;
      return moved(mask, bytes, bytes, [&](unsigned byte) {
        const auto from = static_cast<unsigned>(*selector >> 4 * byte & 7);
        return (from < 4) == is_a ? 1u << from % 4 : 0u;
      });
    }
    case Rule::kCompute:
    case Rule::kControl:
      return all;
    default:
      return mask;
  }
}

}  // namespace sglab::emu
