#include <bit>

#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/registers.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/decoder.hpp"

// Branches and the ends of threads.
namespace sglab::emu {
namespace {

std::uint32_t guard_lanes(const Warp& w, const Inst* i) {
  if (i->guard == kNoGuard) return w.mask;
  return w.mask & (w.predicates[i->guard >> 1] ^ (0u - (i->guard & 1u)));
}

const Inst* go(Warp& w, std::uint32_t pc) {
  return w.group_count == 1 ? w.code + pc : meet(w, pc);
}

const Inst* join(Warp& w, const Inst* i) {
  if (w.group_count == 1) return i + 1;
  return meet(w, static_cast<std::uint32_t>(i - w.code) + 1);
}

const Inst* branch_always(Warp& w, const Inst* i) {
  return go(w, i->target);
}

// Lanes that part here go on after the instruction: those that come later meet them there.
const Inst* branch(Warp& w, const Inst* i) {
  const std::uint32_t taken = guard_lanes(w, i);
  if (taken == 0) return join(w, i);
  if (taken == w.mask) return go(w, i->target);
  return diverge(w, i, taken, i->target);
}

void build_bra(Builder& b) {
  b.expect_count(1, 1);
  b.branch(b.operand(0));
  b.inst.fn[0] = b.inst.fn[1] = b.statement.guard == kNoIndex ? branch_always : branch;
}

// Lanes may go to different targets: one group each.
const Inst* branch_indexed(Warp& w, const Inst* i) {
  const std::uint32_t lanes = guard_lanes(w, i);
  if (lanes == 0) return i + 1;
  const auto* const index = lanes32(w, i->a);
  const int first = std::countr_zero(lanes);
  const std::vector<std::uint32_t>& targets = payload<BranchTargets>(i).pcs;
  if (index[first] >= targets.size()) {
    raise_fault(w, i, first, "branch",
                "brx.idx index " + std::to_string(index[first]) + " is outside its table of " +
                    std::to_string(targets.size()));
  }
  std::uint32_t same = 0;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (index[l] == index[first]) same |= 1u << l;
  }
  const auto target = targets[index[first]];
  if (same == w.mask) return go(w, target);
  // The others execute this instruction again.
  return diverge(w, i - 1, same, target);
}

void build_brx(Builder& b) {
  b.expect_count(2, 2);
  b.use(Field::kA, b.operand(0), 'w');
  if (b.operand(1).kind != OperandKind::kLabel) b.refuse("expected the label of a .branchtargets");
  b.decoder().table_targets(b.function(), b.operand(1).index, b.extra());
  if (b.statement.guard != kNoIndex) b.refuse("a guarded brx.idx is not supported");
  b.inst.fn[0] = b.inst.fn[1] = branch_indexed;
}

const Inst* exit_threads(Warp& w, const Inst* i) {
  const std::uint32_t lanes = guard_lanes(w, i);
  return lanes == 0 ? join(w, i) : leave(w, i, lanes);
}

const Inst* trap(Warp& w, const Inst* i) {
  raise_fault(w, i, std::countr_zero(w.mask), "trap", "the kernel executed trap");
}

void build_plain(Builder& b) {
  b.expect_count(0, 0);
}

const Inst* nothing(Warp&, const Inst* i) {
  return i + 1;
}

}  // namespace

void build_exit(Builder& b) {
  b.expect_count(0, 0);
  b.inst.fn[0] = b.inst.fn[1] = exit_threads;
  b.decoder().leave(b.statement.guard == kNoIndex ? Flow::kExit : Flow::kNext);
}

void register_control(Table& t) {
  t.family("Control flow", InstClass::kControl);
  register_calls(t);
  t.row("bra[.uni]", does::goes(Act::kBranch), build_bra);
  t.row("brx.idx[.uni]", does::goes(Act::kBranchTable), build_brx);
  t.row("exit", does::goes(Act::kExit), build_exit);
  t.row("trap", does::goes(Act::kTrap), build_plain, trap);
  t.row("brkpt", does::computes(Cost::kAlu), build_plain, nothing);
  t.row("pmevent[.mask]", does::computes(Cost::kAlu), [](Builder& b) { b.expect_count(1, 1); }, nothing);
  t.support.join = join;
}

}  // namespace sglab::emu
