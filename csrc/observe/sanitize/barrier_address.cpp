#include "observe/sanitize/barrier_address.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "isa/table.hpp"
#include "machine/ops/operands.hpp"
#include "observe/record/accesses.hpp"
#include "observe/sanitize/reach.hpp"

namespace sglab::emu {
namespace {

constexpr int kDepth = 8;  // of sums of sums

bool passes_on(std::string_view opcode) {
  for (const std::string_view prefix : {"mov.", "mapa.", "cvta.", "cvt.u32.u64", "cvt.u64.u32"}) {
    if (opcode.starts_with(prefix)) return true;
  }
  return false;
}

bool is_sum(std::string_view opcode) {
  return opcode == "add.s32" || opcode == "add.u32" || opcode == "add.s64" || opcode == "add.u64";
}

// Of operands that are constants: buffers are aligned like that.
std::optional<std::int64_t> folded(std::string_view opcode, std::int64_t a, std::int64_t b) {
  if (opcode.starts_with("neg.")) return -a;
  if (opcode.starts_with("not.")) return ~a;
  if (opcode.starts_with("and.b")) return a & b;
  if (opcode.starts_with("or.b")) return a | b;
  if (opcode.starts_with("sub.s") || opcode.starts_with("sub.u")) return a - b;
  return std::nullopt;
}

bool is_product(std::string_view opcode) {
  return opcode == "mad.lo.s32" || opcode == "mad.lo.u32" || opcode == "mad.lo.s64" || opcode == "mad.lo.u64";
}

bool waits_for_mbarrier(std::string_view opcode) {
  return opcode.starts_with("mbarrier.try_wait") || opcode.starts_with("mbarrier.test_wait");
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
    if (!waits_for_mbarrier(opcode_of(program, pc))) continue;
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

// Whether a single object may be one of a ring: it does not lie in front of it, and nothing else lies
// between. The elements of a ring that a loop waits for are not waited for one by one as well.
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
  const auto behind = std::lower_bound(found->second.begin(), found->second.end(), before);
  if (behind == found->second.begin()) return {0, {before}};
  const std::uint32_t pc = *(behind - 1);
  const Address unknown{0, {pc}};
  if (depth == 0) return unknown;
  const Inst& inst = program_.code[pc];
  if (inst.guard != kNoGuard || program_.places[pc].function != program_.places[before].function)
    return unknown;
  const std::string_view opcode = opcode_of(program_, pc);
  const Support& support = instruction_table().support;
  if (opcode.empty()) {
    const bool symbol = inst.body == support.window32 || inst.body == support.window64;
    return symbol ? Address{inst.imm, {}} : unknown;
  }
  if (passes_on(opcode)) return operand(pc, static_cast<std::uint16_t>(Field::kA), depth - 1);
  if (is_product(opcode)) {
    Address sum = operand(pc, static_cast<std::uint16_t>(Field::kC), depth - 1);
    sum.terms.insert(std::upper_bound(sum.terms.begin(), sum.terms.end(), pc), pc);
    return sum;
  }
  const Address a = operand(pc, static_cast<std::uint16_t>(Field::kA), depth - 1);
  const Address b = operand(pc, static_cast<std::uint16_t>(Field::kB), depth - 1);
  if (is_sum(opcode)) {
    Address sum{a.constant + b.constant, {}};
    std::merge(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(), std::back_inserter(sum.terms));
    return sum;
  }
  const bool unary = opcode.starts_with("neg.") || opcode.starts_with("not.");
  if (!a.terms.empty() || (!unary && !b.terms.empty())) return unknown;
  const std::optional<std::int64_t> value = folded(opcode, a.constant, b.constant);
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
  return opcode_of(program_, pc).ends_with("64") ? wide : narrow;
}

}  // namespace sglab::emu
