#include <bit>
#include <cstring>

#include "emulator/engine/cluster.hpp"
#include "emulator/engine/fault.hpp"
#include "emulator/engine/launch.hpp"
#include "emulator/memory/aperture.hpp"
#include "emulator/ops/printf.hpp"
#include "emulator/ops/register.hpp"
#include "emulator/program/builder.hpp"
#include "emulator/program/decoder.hpp"

// Branches, calls and the ends of threads.
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

const Inst* branch(Warp& w, const Inst* i) {
  const std::uint32_t taken = guard_lanes(w, i);
  if (taken == 0) return i + 1;
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
  const auto* const index =
      reinterpret_cast<const std::uint32_t*>(w.bank[i->a >> 31] + (i->a & ~kConstantRef));
  const int first = std::countr_zero(lanes);
  if (index[first] >= i->extra->values.size()) {
    raise_fault(w, i, first, "branch",
                "brx.idx index " + std::to_string(index[first]) + " is outside its table of " +
                    std::to_string(i->extra->values.size()));
  }
  std::uint32_t same = 0;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (index[l] == index[first]) same |= 1u << l;
  }
  const auto target = static_cast<std::uint32_t>(i->extra->values[index[first]]);
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
  return lanes == 0 ? i + 1 : leave(w, i, lanes);
}

void build_exit(Builder& b) {
  b.expect_count(0, 0);
  b.inst.fn[0] = b.inst.fn[1] = exit_threads;
  b.decoder().leave(b.statement.guard == kNoIndex ? Flow::kExit : Flow::kNext);
}

// A return to the caller: its result and where to go on were fixed by the call.
const Inst* return_to_caller(Warp& w, const Inst* i) {
  const std::uint32_t lanes = guard_lanes(w, i);
  if (lanes == 0) return i + 1;
  Group& g = w.current();
  Frame& frame = w.frames[g.frame];
  const std::uint32_t pc = frame.return_pc, caller = frame.caller;
  frame.mask &= ~lanes;
  if (lanes != g.mask) {
    Group returning = g;
    returning.mask = lanes;
    returning.pc = pc;
    returning.frame = caller;
    g.mask &= ~lanes;
    g.pc = static_cast<std::uint32_t>(i - w.code) + 1;
    w.groups[w.group_count++] = returning;
    return choose(w);
  }
  g.frame = caller;
  return go(w, pc);
}

void build_ret(Builder& b) {
  b.expect_count(0, 0);
  b.inst.fn[0] = b.inst.fn[1] = b.entry() ? exit_threads : return_to_caller;
  b.decoder().leave(b.statement.guard == kNoIndex ? Flow::kExit : Flow::kNext);
}

// Copies parameters lane by lane within local memory. Pairs of (from, to, bytes) lie in Extra::values.
void copy_parameters(Warp& w, const std::vector<std::int64_t>& moves, std::size_t first, std::size_t last,
                     std::uint32_t lanes) {
  const std::uint64_t stride = w.program->local_bytes;
  for (std::size_t k = first; k + 3 <= last; k += 3) {
    for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
      std::uint8_t* const local = w.local + static_cast<std::uint64_t>(std::countr_zero(m)) * stride;
      std::memcpy(local + moves[k + 1], local + moves[k], static_cast<std::size_t>(moves[k + 2]));
    }
  }
}

std::uint32_t new_frame(Warp& w, std::uint32_t return_pc, std::uint32_t lanes) {
  std::uint32_t id = 0;
  while (id < w.frames.size() && w.frames[id].mask != 0) ++id;
  if (id == w.frames.size()) w.frames.emplace_back();
  const std::uint32_t caller = w.current().frame;
  w.frames[id] = {caller, return_pc, caller == kNoIndex ? 1 : w.frames[caller].depth + 1, lanes};
  return id;
}

// Inst::target: the callee (Program::functions). Inst::imm: how many of Extra::values copy arguments; behind
// the call stands an instruction that copies results back.
const Inst* call(Warp& w, const Inst* i) {
  copy_parameters(w, i->extra->values, 0, i->extra->values.size(), w.mask);
  const auto return_pc = static_cast<std::uint32_t>(i - w.code) + 1;
  const std::uint32_t entry = w.program->functions[i->target].begin;
  const std::uint32_t lanes = w.mask;
  if (lanes != w.current().mask) {
    Group rest = w.current();
    rest.mask &= ~lanes;
    rest.pc = return_pc;
    w.current().mask = lanes;
    w.groups[w.group_count++] = rest;
  }
  w.current().frame = new_frame(w, return_pc, lanes);
  return meet(w, entry);
}

const Inst* copy_results(Warp& w, const Inst* i) {
  copy_parameters(w, i->extra->values, 0, i->extra->values.size(), w.mask);
  return i + 1;
}

const Inst* call_printf(Warp& w, const Inst* i) {
  for (std::uint32_t m = w.mask; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const std::uint8_t* const local = w.local + static_cast<std::uint64_t>(lane) * w.program->local_bytes;
    std::uint64_t format, arguments;
    std::memcpy(&format, local + i->extra->values[0], 8);
    std::memcpy(&arguments, local + i->extra->values[1], 8);
    print(w, i, lane, format, arguments);
    if (i->extra->values[2] >= 0) {
      const std::uint32_t zero = 0;
      std::memcpy(w.local + static_cast<std::uint64_t>(lane) * w.program->local_bytes + i->extra->values[2],
                  &zero, 4);
    }
  }
  return i + 1;
}

const Inst* call_assertfail(Warp& w, const Inst* i) {
  const int lane = std::countr_zero(w.mask);
  const std::uint8_t* const local = w.local + static_cast<std::uint64_t>(lane) * w.program->local_bytes;
  std::uint64_t message, file;
  std::uint32_t line;
  std::memcpy(&message, local + i->extra->values[0], 8);
  std::memcpy(&file, local + i->extra->values[1], 8);
  std::memcpy(&line, local + i->extra->values[2], 4);
  raise_fault(w, i, lane, "trap",
              "assertion failed: " + read_string(w, i, lane, message) + " (" + read_string(w, i, lane, file) +
                  ":" + std::to_string(line) + ")");
}

std::int64_t parameter_offset(Builder& b, const Operand& operand) {
  if (operand.kind != OperandKind::kSymbol || b.module().symbols[operand.index].space != Space::kParam) {
    b.refuse("call arguments must be .param variables");
  }
  return static_cast<std::int64_t>(b.decoder().symbol_offset(operand.index));
}

// call [(result), ] function [, (arguments)] [, prototype];
void build_call(Builder& b) {
  unsigned at = 0;
  std::span<const Operand> results, arguments;
  if (b.operand(0).kind == OperandKind::kList) results = b.children(b.operand(at++));
  const Operand& target = b.operand(at++);
  if (at < b.count() && b.operand(at).kind == OperandKind::kList) arguments = b.children(b.operand(at++));
  if (target.kind != OperandKind::kFunction) b.refuse("indirect calls are not supported");
  const Function& callee = b.module().functions[target.index];
  std::vector<std::int64_t>& values = b.extra().values;
  if (!callee.defined) {
    for (const Operand& argument : arguments) values.push_back(parameter_offset(b, argument));
    if (callee.name == "vprintf" && arguments.size() == 2) {
      values.push_back(results.empty() ? -1 : parameter_offset(b, results[0]));
      b.inst.body = call_printf;
      return;
    }
    if (callee.name == "__assertfail" && arguments.size() >= 3) {
      b.inst.body = call_assertfail;
      return;
    }
    b.refuse("function " + std::string(callee.name) + " has no body");
  }
  if (callee.entry || callee.register_parameters)
    b.refuse("only functions with .param parameters can be called");
  const std::uint32_t id = b.decoder().called(target.index);
  const ProgramFunction shape = b.decoder().program().functions[id];
  if (shape.parameters.size() != arguments.size() || shape.returns.size() != results.size()) {
    b.refuse("the call does not fit the declaration of " + std::string(callee.name));
  }
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    values.push_back(parameter_offset(b, arguments[k]));
    values.push_back(shape.parameters[k].offset);
    values.push_back(shape.parameters[k].bytes);
  }
  b.inst.target = id;
  b.inst.body = call;
  if (results.empty()) return;
  Extra& back = b.decoder().extra();
  for (std::size_t k = 0; k < results.size(); ++k) {
    back.values.push_back(shape.returns[k].offset);
    back.values.push_back(parameter_offset(b, results[k]));
    back.values.push_back(shape.returns[k].bytes);
  }
  b.decoder().follow(copy_results, &back);
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

void register_control(Table& t) {
  t.family("Control flow", InstClass::kControl);
  t.row("bra[.uni]", build_bra);
  t.row("brx.idx[.uni]", build_brx);
  t.row("call[.uni]", build_call);
  t.row("ret[.uni]", build_ret);
  t.row("exit", build_exit);
  t.row("trap", build_plain, trap);
  t.row("brkpt", build_plain, nothing);
  t.row("pmevent", [](Builder& b) { b.expect_count(1, 1); }, nothing);
  t.support.join = join;
}

}  // namespace sglab::emu
