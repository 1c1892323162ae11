#include "observe/debug/conditions.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "machine/front/module.hpp"
#include "machine/program/builder.hpp"

namespace sglab::emu {

namespace {

template <class T>
bool compared(Condition::Compare compare, T left, T right) {
  switch (compare) {
    case Condition::Compare::kEqual:
      return left == right;
    case Condition::Compare::kUnequal:
      return left != right;
    case Condition::Compare::kLess:
      return left < right;
    case Condition::Compare::kAtMost:
      return left <= right;
    case Condition::Compare::kMore:
      return left > right;
    case Condition::Compare::kAtLeast:
      return left >= right;
  }
  return false;
}

bool compared_real(const Condition& c, double value) {
  if (!std::isnan(c.real)) return compared(c.compare, value, c.real);
  return std::isnan(value) == (c.compare == Condition::Compare::kEqual);
}

template <class T>
T value_at(const std::uint8_t* lanes, unsigned lane) {
  T value;
  std::memcpy(&value, lanes + sizeof(T) * lane, sizeof(T));
  return value;
}

std::uint64_t bits_at(const std::uint8_t* lanes, unsigned bytes, unsigned lane) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, lanes + std::size_t{bytes} * lane, bytes);
  return bits;
}

bool holds(const Condition& c, const Warp& w, std::uint32_t pc, unsigned lane) {
  if (c.places.empty()) return compared<std::int64_t>(c.compare, lane, c.whole);
  const auto [at, type] = c.places[pc];
  if (at == kConstantRef) return false;
  if (type == Type::kPred) return compared<std::int64_t>(c.compare, w.predicates[at] >> lane & 1, c.whole);
  const std::uint8_t* const lanes = w.bank[0] + at;
  const unsigned bytes = letter_bytes(letter_of(type));
  if (type == Type::kF32 || (type == Type::kB32 && c.is_float))
    return compared_real(c, value_at<float>(lanes, lane));
  if (type == Type::kF64 || (type == Type::kB64 && c.is_float))
    return compared_real(c, value_at<double>(lanes, lane));
  const std::uint64_t bits = bits_at(lanes, bytes, lane);
  const unsigned unused = 64 - 8 * bytes;
  const auto as_signed = static_cast<std::int64_t>(bits << unused) >> unused;
  const auto as_unsigned = static_cast<std::int64_t>(bits);  // of 64 bits, those that are negative are large
  const bool equal = as_signed == c.whole || as_unsigned == c.whole;
  if (c.compare == Condition::Compare::kEqual) return equal;
  if (c.compare == Condition::Compare::kUnequal) return !equal;
  const bool is_unsigned =
      type == Type::kU8 || type == Type::kU16 || type == Type::kU32 || type == Type::kU64;
  if (!is_unsigned) return compared(c.compare, as_signed, c.whole);
  if (type == Type::kU64) return compared(c.compare, bits, static_cast<std::uint64_t>(c.whole));
  return compared(c.compare, as_unsigned, c.whole);
}

}  // namespace

std::vector<Condition::Place> places_of(const Program& program, std::string_view name) {
  std::vector<Condition::Place> found(program.places.size());
  for (const ProgramFunction& owner : program.functions) {
    const Function& function = program.image->module().functions[owner.source];
    for (std::uint32_t i = 0; i < function.registers.size(); ++i) {
      const Lifetime life = program.lifetimes[owner.first_register + i];
      const Ref place = program.registers[owner.first_register + i];
      if (place == kConstantRef || register_name(function, i) != name) continue;
      for (std::uint32_t pc = owner.begin; pc < owner.end; ++pc) {
        if (life.start < 2 * pc && 2 * pc <= life.end) found[pc] = {place, function.registers[i]};
      }
    }
  }
  return found;
}

std::uint32_t lanes_where(const std::vector<Condition>& conditions, const Warp& w, std::uint32_t pc,
                          std::uint32_t lanes) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(m));
    for (const Condition& c : conditions) {
      if (!holds(c, w, pc, lane)) lanes &= ~(1u << lane);
    }
  }
  return lanes;
}

}  // namespace sglab::emu
