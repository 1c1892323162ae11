#include "observe/sanitize/barrier_address.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "isa/table.hpp"
#include "machine/ops/operands.hpp"
#include "observe/sanitize/reach.hpp"

namespace sglab::emu {
namespace {

constexpr int kDepth = 8;  // of sums of sums

// Of operands that are constants: buffers are aligned like that.
std::optional<std::int64_t> folded(Value value, std::int64_t a, std::int64_t b) {
  switch (value) {
    case Value::kNegation:
      return -a;
    case Value::kComplement:
      return ~a;
    case Value::kAnd:
      return a & b;
    case Value::kOr:
      return a | b;
    case Value::kDifference:
      return a - b;
    default:
      return std::nullopt;
  }
}

}  // namespace

BarrierAddresses::BarrierAddresses(const Program& program) : program_(program) {
  first_.assign(program.code.size() + 1, 0);
  for (const Mention& m : program.mentions) {
    ++first_[m.inst + 1];
    if (m.definition && !m.predicate) definitions_[m.place].push_back(m.inst);
  }
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) first_[pc + 1] += first_[pc];
  for (std::uint32_t pc = 0; pc < program.code.size(); ++pc) {
    if (program.effects[pc].act != Act::kMbarrierWait) continue;
    if (const auto at = address(pc)) waits_.emplace(pc, *at);
  }
}

BarrierAddresses::Fit BarrierAddresses::fit(std::uint32_t waits, std::uint32_t arrives) const {
  const auto found = waits_.find(waits);
  const std::optional<Address> arrival = address(arrives);
  if (found == waits_.end() || !arrival) return Fit::kUnknown;
  const Address& wait = found->second;
  if (arrival->constant == wait.constant) return Fit::kSame;
  if (has_more(*arrival, wait)) return may_be_of(*arrival, wait) ? Fit::kUnknown : Fit::kOther;
  if (waited_for(*arrival)) return Fit::kOther;
  if (has_more(wait, *arrival)) return may_be_of(wait, *arrival) ? Fit::kUnknown : Fit::kOther;
  return arrival->terms == wait.terms ? Fit::kOther : Fit::kUnknown;
}

// Whether an address changes where another one does not.
bool BarrierAddresses::has_more(const Address& a, const Address& b) {
  return a.terms.size() > b.terms.size() &&
         std::includes(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end());
}

bool BarrierAddresses::waited_for(const Address& at) const {
  return std::any_of(waits_.begin(), waits_.end(),
                     [&](const auto& one) { return one.second.constant == at.constant; });
}

// Whether a single object may be one of a ring: it does not precede it, and nothing else is
// between. The elements of a ring that a loop waits for are not also waited for one by one.
bool BarrierAddresses::may_be_of(const Address& ring, const Address& single) const {
  if (single.constant < ring.constant) return false;
  const bool whole = std::any_of(waits_.begin(), waits_.end(), [&](const auto& one) {
    return one.second.constant == ring.constant && has_more(one.second, single);
  });
  return std::none_of(waits_.begin(), waits_.end(), [&](const auto& one) {
    const Address& at = one.second;
    if (at.constant <= ring.constant || at.constant > single.constant) return false;
    return has_more(at, single) || (whole && at.constant < single.constant);
  });
}

std::optional<BarrierAddresses::Address> BarrierAddresses::address(std::uint32_t pc) const {
  const std::optional<AddressOperand> at = mbarrier_operand(program_, pc);
  if (!at) return std::nullopt;
  if (at->mode == AddressMode::kAbsolute || at->mode == AddressMode::kOwnCta) return Address{at->offset, {}};
  Address base =
      (at->base & kConstantRef) != 0 ? Address{constant(pc, at->base), {}} : value(at->base, pc, kDepth);
  base.constant += at->offset;
  return base;
}

// What a register holds that was written before an instruction. The text's last write is taken for it.
BarrierAddresses::Address BarrierAddresses::value(Ref place, std::uint32_t before, int depth) const {
  const auto found = definitions_.find(place);
  if (found == definitions_.end()) return {0, {before}};
  const auto later = std::lower_bound(found->second.begin(), found->second.end(), before);
  if (later == found->second.begin()) return {0, {before}};
  const std::uint32_t pc = *(later - 1);
  const Address unknown{0, {pc}};
  if (depth == 0) return unknown;
  const Inst& inst = program_.code[pc];
  if (inst.guard != kNoGuard || program_.places[pc].function != program_.places[before].function)
    return unknown;
  const Value how = program_.effects[pc].value;
  const Support& support = instruction_table().support;
  if (program_.places[pc].line == 0) {
    const bool symbol = inst.body == support.window32 || inst.body == support.window64;
    return symbol ? Address{inst.imm, {}} : unknown;
  }
  if (how == Value::kCopy) return operand(pc, static_cast<std::uint16_t>(Field::kA), depth - 1);
  if (how == Value::kProductSum) {
    Address sum = operand(pc, static_cast<std::uint16_t>(Field::kC), depth - 1);
    sum.terms.insert(std::upper_bound(sum.terms.begin(), sum.terms.end(), pc), pc);
    return sum;
  }
  const Address a = operand(pc, static_cast<std::uint16_t>(Field::kA), depth - 1);
  const Address b = operand(pc, static_cast<std::uint16_t>(Field::kB), depth - 1);
  if (how == Value::kSum) {
    Address sum{a.constant + b.constant, {}};
    std::merge(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(), std::back_inserter(sum.terms));
    return sum;
  }
  const bool unary = how == Value::kNegation || how == Value::kComplement;
  if (!a.terms.empty() || (!unary && !b.terms.empty())) return unknown;
  const std::optional<std::int64_t> value = folded(how, a.constant, b.constant);
  return value ? Address{*value, {}} : unknown;
}

BarrierAddresses::Address BarrierAddresses::operand(std::uint32_t pc, std::uint16_t field, int depth) const {
  const Inst& inst = program_.code[pc];
  const Ref refs[] = {inst.d, inst.a, inst.b, inst.c};
  const Ref ref = refs[field];
  if ((ref & kConstantRef) != 0) return {constant(pc, ref), {}};
  for (std::uint32_t i = first_[pc]; i < first_[pc + 1]; ++i) {
    const Mention& m = program_.mentions[i];
    if (!m.definition && m.field == field) return value(m.place, pc, depth);
  }
  return {0, {pc}};  // a special register
}

std::int64_t BarrierAddresses::constant(std::uint32_t pc, Ref ref) const {
  const std::uint8_t* const at = program_.constants.data() + (ref & ~kConstantRef);
  std::int32_t narrow;
  std::int64_t wide;
  std::memcpy(&narrow, at, sizeof narrow);
  std::memcpy(&wide, at, sizeof wide);
  return type_bytes(program_.effects[pc].type) == 8 ? wide : narrow;
}

}  // namespace sglab::emu
