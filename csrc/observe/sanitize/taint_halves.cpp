#include <algorithm>
#include <cstring>
#include <optional>

#include "machine/ops/operands.hpp"
#include "observe/sanitize/taint.hpp"

// What the halves of a result have from the halves of a source: compilers pack a value with one that was
// never written, and take the first out again.
namespace sglab::emu {
namespace {

using Mask = Taint::Mask;

bool in_lower(unsigned byte, unsigned bytes) {
  return bytes == 1 || byte < bytes / 2;
}
bool in_upper(unsigned byte, unsigned bytes) {
  return bytes == 1 || byte >= bytes / 2;
}

// Tainted lanes of some bytes of a register, bit n for byte n.
std::uint32_t lanes_of(const Mask& mask, unsigned bytes, std::uint32_t which) {
  std::uint32_t lanes = 0;
  for (unsigned byte = 0; byte < bytes; ++byte) {
    if ((which >> byte & 1u) == 0) continue;
    if (in_lower(byte, bytes)) lanes |= mask.low;
    if (in_upper(byte, bytes)) lanes |= mask.high;
  }
  return lanes;
}

// `sources(i)`: which bytes of the source byte i of the result depends on.
template <class F>
Mask moved(const Mask& mask, unsigned source_bytes, unsigned result_bytes, F sources) {
  Mask result{0, 0, mask.origin};
  for (unsigned byte = 0; byte < result_bytes; ++byte) {
    const std::uint32_t lanes = lanes_of(mask, source_bytes, sources(byte));
    if (in_lower(byte, result_bytes)) result.low |= lanes;
    if (in_upper(byte, result_bytes)) result.high |= lanes;
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
  if (is_float(to)) return Mask::both(lanes_of(mask, source_bytes, (1u << read) - 1), mask.origin);
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

// The lanes in which every bit of a half is `bit`.
Mask filled(const Warp& w, Ref ref, unsigned bytes, bool bit) {
  const std::uint64_t half = (std::uint64_t{1} << 4 * bytes) - 1, other = bit ? ~std::uint64_t{0} : 0;
  Mask result;
  for (int lane = 0; lane < 32; ++lane) {
    const std::uint64_t differs = value_of(w, ref, bytes, lane) ^ other;
    if ((differs & half) == 0) result.low |= 1u << lane;
    if ((differs >> 4 * bytes & half) == 0) result.high |= 1u << lane;
  }
  return result;
}

}  // namespace

// Zeros decide an `and`, ones an `or`, whatever the other operand is: compilers make `if (outside ||
// loaded != 0)` one `or.pred` of a value that only lanes inside have loaded.
void Taint::look_at_logic(const Warp& w, const Inst* inst) {
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  const bool ones = program_->effects[pc].value == Value::kOr;
  const auto [first, last] = mentions(pc);
  const auto result = std::find_if(first, last, [](const Mention& m) { return m.definition; });
  const Ref operands[] = {inst->a, inst->b};
  Mask unknown[2];
  for (const Mention* m = first; m != last; ++m) {
    if (m->definition || m->field == static_cast<std::uint16_t>(Field::kGuard)) continue;
    const Mask tainted = of(w, *m);
    Mask& operand = unknown[m->field == static_cast<std::uint16_t>(Field::kA) ? 0 : 1];
    operand.low |= tainted.low;
    operand.high |= tainted.high;
  }
  for (int i = 0; i < 2; ++i) {
    decided_[i] = {};
    if (unknown[1 - i].lanes() == 0) continue;  // nothing that it could decide
    if (result->predicate) {
      const std::uint32_t holds = predicate_lanes(w, operands[i]);
      decided_[i] = Mask::both(ones ? holds : ~holds, 0);
    } else {
      decided_[i] = filled(w, operands[i], bytes_of(*result), ones);
    }
    decided_[i].low &= ~unknown[i].low;
    decided_[i].high &= ~unknown[i].high;
  }
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
  return Mask::both(lanes_of(mask, width, (1u << bytes) - 1), mask.origin);
}

Taint::Mask Taint::loaded_into(const Mention& destination, Type element, Mask mask) {
  if (type_bytes(element) >= bytes_of(destination)) return mask;
  return {mask.lanes(), is_signed(element) ? mask.lanes() : 0, mask.origin};
}

Taint::Mask Taint::taken(const Actor& actor, const Mention& source, unsigned result_bytes) {
  const Warp& w = *actor.warp;
  const Effects& how = program_->effects[static_cast<std::size_t>(actor.inst - w.code)];
  const Mask mask = of(w, source);
  if (mask.lanes() == 0) return mask;
  const unsigned bytes = bytes_of(source);
  const bool is_a = source.field == static_cast<std::uint16_t>(Field::kA);
  const Mask all = Mask::both(mask.lanes(), mask.origin);
  switch (how.taint) {
    case Rule::kConvert:
      return converted(mask, how.to, how.type, bytes, result_bytes);
    case Rule::kConvertPair:
      return is_a ? Mask{0, mask.lanes(), mask.origin} : Mask{mask.lanes(), 0, mask.origin};
    case Rule::kCarries:
      return {mask.low, mask.lanes(), mask.origin};
    case Rule::kLogic: {
      const Mask& decided = decided_[is_a ? 1 : 0];
      return {mask.low & ~decided.low, mask.high & ~decided.high, mask.origin};
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
