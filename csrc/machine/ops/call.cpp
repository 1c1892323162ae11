#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/registers.hpp"
#include "machine/ops/call_site.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/decoder.hpp"

// Calls and returns. Each function has registers and local memory of its own, laid out once; a function that
// may be called again before it returns saves them around its calls.
namespace sglab::emu {
namespace {

constexpr std::size_t kDeepest = 4096;  // frames of a warp

// What `lanes` of a function keep.
void save(const Warp& w, const ProgramFunction& function, std::uint32_t lanes,
          std::vector<std::uint8_t>& saved) {
  const auto append = [&](const std::uint8_t* bytes, std::size_t count) {
    saved.insert(saved.end(), bytes, bytes + count);
  };
  for (const RegisterSlot& slot : function.slots) {
    const std::uint8_t* const at = w.bank[0] + slot.place;
    if (lanes == 0xffffffffu) {
      append(at, std::size_t{32} * slot.lane_bytes);
    } else {
      for_lanes(lanes,
                [&](int l) { append(at + static_cast<unsigned>(l) * slot.lane_bytes, slot.lane_bytes); });
    }
  }
  append(reinterpret_cast<const std::uint8_t*>(w.predicates + function.first_predicate),
         sizeof(std::uint32_t) * (function.end_predicate - function.first_predicate));
  for_lanes(lanes, [&](int l) {
    for (const ParameterSlot& slot : function.locals) append(local_of(w, l) + slot.offset, slot.bytes);
  });
}

// `lanes` of the lanes that were saved.
void restore(Warp& w, const ProgramFunction& function, std::uint32_t saved_lanes, std::uint32_t lanes,
             const std::vector<std::uint8_t>& saved) {
  const std::uint8_t* from = saved.data();
  const auto take = [&](int lane, std::uint8_t* to, std::size_t bytes) {
    if (lanes >> lane & 1) std::memcpy(to, from, bytes);
    from += bytes;
  };
  for (const RegisterSlot& slot : function.slots) {
    std::uint8_t* const at = w.bank[0] + slot.place;
    for_lanes(saved_lanes,
              [&](int l) { take(l, at + static_cast<unsigned>(l) * slot.lane_bytes, slot.lane_bytes); });
  }
  for (std::uint32_t p = function.first_predicate; p < function.end_predicate;
       ++p, from += sizeof(std::uint32_t)) {
    std::uint32_t old;
    std::memcpy(&old, from, sizeof old);
    w.predicates[p] = (w.predicates[p] & ~lanes) | (old & lanes);
  }
  for_lanes(saved_lanes, [&](int l) {
    for (const ParameterSlot& slot : function.locals) take(l, local_of(w, l) + slot.offset, slot.bytes);
  });
}

std::uint32_t new_frame(Warp& w, const Inst* i) {
  std::uint32_t id = 0;
  while (id < w.frames.size() && w.frames[id].mask != 0) ++id;
  if (id == w.frames.size()) {
    if (id == kDeepest) raise_fault(w, i, std::countr_zero(w.mask), "stack", "calls are nested too deeply");
    w.frames.emplace_back();
  }
  return id;
}

// A function that calls itself may hand its parameters on in another order.
void pass(Warp& w, int lane, const CallSite& site, const ProgramFunction& callee) {
  std::uint8_t* const local = local_of(w, lane);
  if (!site.passes_on) {
    for (std::size_t k = 0; k < callee.parameters.size(); ++k)
      std::memcpy(local + callee.parameters[k].offset, argument_of(w, lane, site.arguments[k]),
                  callee.parameters[k].bytes);
    return;
  }
  std::vector<std::uint8_t> values;
  for (const CallSlot& slot : site.arguments) {
    const std::uint8_t* const at = argument_of(w, lane, slot);
    values.insert(values.end(), at, at + slot.bytes);
  }
  const std::uint8_t* from = values.data();
  for (const ParameterSlot& slot : callee.parameters) {
    std::memcpy(local + slot.offset, from, slot.bytes);
    from += slot.bytes;
  }
}

// Keeps what a recursive caller needs when it goes on.
void keep_caller(Warp& w, const Inst* i, const ProgramFunction& caller, Frame& frame) {
  frame.stack = frame.caller == kNoIndex ? 0 : w.frames[frame.caller].stack;
  frame.saved = nullptr;
  if (!caller.recursive) return;
  auto saved = std::make_shared<std::vector<std::uint8_t>>();
  save(w, caller, w.mask, *saved);
  frame.stack += saved->size() / static_cast<unsigned>(std::popcount(w.mask));
  if (w.program->local_bytes + frame.stack > kMostLocal) {
    raise_fault(w, i, std::countr_zero(w.mask), "stack",
                "calls are nested too deeply: they keep " + std::to_string(frame.stack) + " bytes, with " +
                    std::to_string(w.program->local_bytes) + " bytes of local memory more than the " +
                    std::to_string(kMostLocal) + " that a thread has");
  }
  charge(w, saved->size());
  frame.saved = std::move(saved);
}

// The current group, which consists of w.mask alone, enters a function.
const Inst* enter(Warp& w, const Inst* i, std::uint32_t callee_id) {
  const ProgramFunction& callee = w.program->functions[callee_id];
  const auto pc = static_cast<std::uint32_t>(i - w.code);
  const std::uint32_t id = new_frame(w, i);
  Frame& frame = w.frames[id];
  frame.caller = w.current().frame;
  frame.depth = frame.caller == kNoIndex ? 1 : w.frames[frame.caller].depth + 1;
  frame.call = pc;
  frame.callee = callee_id;
  keep_caller(w, i, w.program->functions[w.program->places[pc].function], frame);
  frame.mask = frame.saved_mask = w.mask;
  const CallSite& site = payload<CallSite>(i);
  for_lanes(w.mask, [&](int l) { pass(w, l, site, callee); });
  w.current().frame = id;
  return meet(w, callee.begin);
}

std::string misfit(const CallSite& site, const ProgramFunction& function) {
  const std::string problem = misfit("argument", site.arguments, function.parameters);
  return problem.empty() ? misfit("result", site.results, function.returns) : problem;
}

// Lanes of the current group that are not in w.mask continue elsewhere.
void set_aside(Warp& w, std::uint32_t lanes, std::uint32_t pc) {
  if (lanes == 0) return;
  Group rest = w.current();
  rest.mask = lanes;
  rest.pc = pc;
  w.current().mask &= ~lanes;
  w.groups[w.group_count++] = rest;
}

const Inst* call(Warp& w, const Inst* i) {
  set_aside(w, w.current().mask & ~w.mask, static_cast<std::uint32_t>(i - w.code) + 1);
  return enter(w, i, i->target);
}

const Inst* call_indirect(Warp& w, const Inst* i) {
  const auto pc = static_cast<std::uint32_t>(i - w.code);
  const auto* const target = lanes64(w, i->a);
  const int first = std::countr_zero(w.mask);
  const std::uint64_t wanted = target[first];
  std::uint32_t id = 0;
  while (id < w.program->functions.size() &&
         Image::function_address(w.program->functions[id].source) != wanted)
    ++id;
  if (id == w.program->functions.size()) {
    raise_fault(w, i, first, "call", "there is no function at " + hex(wanted));
  }
  const std::string problem = misfit(payload<CallSite>(i), w.program->functions[id]);
  if (!problem.empty())
    raise_fault(w, i, first, "call", "the call does not fit the function called: " + problem);
  std::uint32_t same = 0;
  for_lanes(w.mask, [&](int l) { same |= (target[l] == wanted ? 1u : 0u) << l; });
  set_aside(w, w.current().mask & ~w.mask, pc + 1);
  set_aside(w, w.mask & ~same, pc);  // they call another function in a moment
  w.mask = same;
  return enter(w, i, id);
}

// Results go from the callee's local memory to the caller's, past what is restored in between.
const Inst* return_to_caller(Warp& w, const Inst* i) {
  std::uint32_t lanes = w.mask;
  if (i->guard != kNoGuard) lanes &= w.predicates[i->guard >> 1] ^ (0u - (i->guard & 1u));
  if (lanes == 0) return w.group_count == 1 ? i + 1 : meet(w, static_cast<std::uint32_t>(i - w.code) + 1);
  set_aside(w, w.current().mask & ~lanes, static_cast<std::uint32_t>(i - w.code) + 1);
  Frame& frame = w.frames[w.current().frame];
  const ProgramFunction& callee = w.program->functions[frame.callee];
  const ProgramFunction& caller = w.program->functions[w.program->places[frame.call].function];
  const Inst* const site = w.code + frame.call;
  std::vector<std::uint8_t> results;
  for_lanes(lanes, [&](int l) {
    for (const ParameterSlot& slot : callee.returns) {
      const std::uint8_t* const at = local_of(w, l) + slot.offset;
      results.insert(results.end(), at, at + slot.bytes);
    }
  });
  if (frame.saved != nullptr) {
    restore(w, caller, frame.saved_mask, lanes, *frame.saved);
    charge(w, frame.saved->size());
  }
  const std::uint8_t* from = results.data();
  const std::vector<CallSlot>& kept = payload<CallSite>(site).results;
  for_lanes(lanes, [&](int l) {
    for (const CallSlot& slot : kept) {
      std::memcpy(local_of(w, l) + slot.offset, from, slot.bytes);
      from += slot.bytes;
    }
  });
  const std::uint32_t return_pc = frame.call + 1;
  frame.mask &= ~lanes;
  if (frame.mask == 0) frame.saved = nullptr;
  w.current().frame = frame.caller;
  return meet(w, return_pc);
}

CallSlot slot_of(Builder& b, const Operand& operand, bool result) {
  if (operand.kind != OperandKind::kSymbol || b.module().symbols[operand.index].space != Space::kParam) {
    b.refuse("call arguments must be .param variables");
  }
  const std::vector<std::uint32_t>& parameters = b.function().parameters;
  const bool parameter = std::find(parameters.begin(), parameters.end(), operand.index) != parameters.end();
  const bool of_kernel = b.entry() && parameter;
  if (of_kernel && result) b.refuse("a kernel's parameter cannot take a result");
  return {static_cast<std::uint32_t>(b.decoder().symbol_offset(operand.index)),
          static_cast<std::uint32_t>(b.module().symbols[operand.index].bytes), of_kernel};
}

void build_direct(Builder& b, std::uint32_t target, const CallSite& site) {
  const Function& callee = b.module().functions[target];
  if (!callee.defined) {
    b.inst.body = supplied_function(b, callee.name, site);
    return;
  }
  if (callee.entry || callee.register_parameters)
    b.refuse("only functions with .param parameters can be called");
  b.inst.target = b.decoder().called(target);
  b.decoder().calls(b.inst.target);
  const std::string problem = misfit(site, b.decoder().program().functions[b.inst.target]);
  if (!problem.empty())
    b.refuse("the call does not fit the declaration of " + std::string(callee.name) + ": " + problem);
  b.inst.body = call;
}

// call [(result), ] function [, (arguments)] [, prototype or targets];
void build_call(Builder& b) {
  unsigned at = 0;
  std::span<const Operand> results, arguments;
  if (b.operand(0).kind == OperandKind::kList) results = b.children(b.operand(at++));
  const Operand& target = b.operand(at++);
  if (at < b.count() && b.operand(at).kind == OperandKind::kList) arguments = b.children(b.operand(at++));
  CallSite site;
  for (const Operand& argument : arguments) site.arguments.push_back(slot_of(b, argument, false));
  for (const Operand& result : results) site.results.push_back(slot_of(b, result, true));
  const std::vector<std::uint32_t>& own = b.function().parameters;
  site.passes_on =
      !b.entry() && std::any_of(arguments.begin(), arguments.end(), [&](const Operand& argument) {
        return std::find(own.begin(), own.end(), argument.index) != own.end();
      });
  if (target.kind == OperandKind::kFunction) {
    build_direct(b, target.index, site);
    b.extra().payload = std::move(site);
    return;
  }
  b.extra().payload = std::move(site);
  b.use(Field::kA, target, 'l');
  b.decoder().calls_indirectly();
  b.inst.body = call_indirect;
}

void build_ret(Builder& b) {
  if (b.entry()) return build_exit(b);
  b.expect_count(0, 0);
  b.inst.fn[0] = b.inst.fn[1] = return_to_caller;
  b.decoder().leave(b.statement.guard == kNoIndex ? Flow::kExit : Flow::kNext);
}

}  // namespace

void register_calls(Table& t) {
  t.row("call[.uni]", does::goes(Act::kCall), build_call);
  t.row("ret[.uni]", does::goes(Act::kExit), build_ret);
}

}  // namespace sglab::emu
