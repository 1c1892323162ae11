#include <bit>
#include <cstring>

#include "isa/aperture.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/ops/printf.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"
#include "machine/program/decoder.hpp"

// Calls and returns. Each function has registers and local memory of its own, laid out once; a function that
// may be called again before it returns saves them around its calls.
namespace sglab::emu {
namespace {

constexpr std::size_t kDeepest = 4096;  // frames of a warp

std::uint8_t* local_of(const Warp& w, int lane) {
  return w.local + static_cast<std::uint64_t>(lane) * w.program->local_bytes;
}

template <class F>
void for_lanes(std::uint32_t lanes, F f) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) f(std::countr_zero(m));
}

// Everything a function keeps, all lanes side by side.
template <class F>
void for_each_slot(Warp& w, const ProgramFunction& function, F f) {
  for (const RegisterSlot& slot : function.slots) f(w.bank[0] + slot.place, slot.lane_bytes);
}

void save(Warp& w, const ProgramFunction& function, std::uint32_t lanes, std::vector<std::uint8_t>& saved) {
  saved.clear();
  const auto append = [&](const std::uint8_t* bytes, std::size_t count) {
    saved.insert(saved.end(), bytes, bytes + count);
  };
  for_each_slot(w, function,
                [&](const std::uint8_t* at, unsigned bytes) { append(at, std::size_t{32} * bytes); });
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
  for_each_slot(w, function, [&](std::uint8_t* at, unsigned bytes) {
    for_lanes(lanes, [&](int l) { std::memcpy(at + l * bytes, from + l * bytes, bytes); });
    from += std::size_t{32} * bytes;
  });
  for (std::uint32_t p = function.first_predicate; p < function.end_predicate;
       ++p, from += sizeof(std::uint32_t)) {
    std::uint32_t old;
    std::memcpy(&old, from, sizeof old);
    w.predicates[p] = (w.predicates[p] & ~lanes) | (old & lanes);
  }
  for_lanes(saved_lanes, [&](int l) {
    for (const ParameterSlot& slot : function.locals) {
      if (lanes >> l & 1) std::memcpy(local_of(w, l) + slot.offset, from, slot.bytes);
      from += slot.bytes;
    }
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

// Where a call's arguments and results are in local memory.
struct CallSite {
  std::vector<std::uint64_t> arguments, results;
};

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
  frame.mask = frame.saved_mask = w.mask;
  const ProgramFunction& caller = w.program->functions[w.program->places[pc].function];
  frame.saved.clear();
  if (caller.recursive) save(w, caller, w.mask, frame.saved);
  for_lanes(w.mask, [&](int l) {
    std::uint8_t* const local = local_of(w, l);
    for (std::size_t k = 0; k < callee.parameters.size(); ++k) {
      std::memcpy(local + callee.parameters[k].offset, local + payload<CallSite>(i).arguments[k],
                  callee.parameters[k].bytes);
    }
  });
  w.current().frame = id;
  return meet(w, callee.begin);
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
  const auto* const target =
      reinterpret_cast<const std::uint64_t*>(w.bank[i->a >> 31] + (i->a & ~kConstantRef));
  const int first = std::countr_zero(w.mask);
  const std::uint64_t wanted = target[first];
  std::uint32_t id = 0;
  while (id < w.program->functions.size() &&
         Image::function_address(w.program->functions[id].source) != wanted)
    ++id;
  if (id == w.program->functions.size()) {
    raise_fault(w, i, first, "call", "there is no function at " + hex(wanted));
  }
  if (w.program->functions[id].parameters.size() != payload<CallSite>(i).arguments.size()) {
    raise_fault(w, i, first, "call", "the function called takes a different number of arguments");
  }
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
  if (lanes == 0) return i + 1;
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
  if (caller.recursive) restore(w, caller, frame.saved_mask, lanes, frame.saved);
  const std::uint8_t* from = results.data();
  const std::vector<std::uint64_t>& kept = payload<CallSite>(site).results;
  for_lanes(lanes, [&](int l) {
    for (std::size_t k = 0; k < callee.returns.size(); ++k) {
      if (k < kept.size()) {
        std::memcpy(local_of(w, l) + kept[k], from, callee.returns[k].bytes);
      }
      from += callee.returns[k].bytes;
    }
  });
  const std::uint32_t return_pc = frame.call + 1;
  frame.mask &= ~lanes;
  w.current().frame = frame.caller;
  return meet(w, return_pc);
}

const Inst* call_printf(Warp& w, const Inst* i) {
  const CallSite& site = payload<CallSite>(i);
  for_lanes(w.mask, [&](int l) {
    std::uint64_t format, arguments;
    std::memcpy(&format, local_of(w, l) + site.arguments[0], sizeof format);
    std::memcpy(&arguments, local_of(w, l) + site.arguments[1], sizeof arguments);
    print(w, i, l, format, arguments);
    if (!site.results.empty()) std::memset(local_of(w, l) + site.results[0], 0, sizeof(std::uint32_t));
  });
  return i + 1;
}

const Inst* call_assertfail(Warp& w, const Inst* i) {
  const int lane = std::countr_zero(w.mask);
  const CallSite& site = payload<CallSite>(i);
  std::uint64_t message, file;
  std::uint32_t line;
  std::memcpy(&message, local_of(w, lane) + site.arguments[0], sizeof message);
  std::memcpy(&file, local_of(w, lane) + site.arguments[1], sizeof file);
  std::memcpy(&line, local_of(w, lane) + site.arguments[2], sizeof line);
  raise_fault(w, i, lane, "trap",
              "assertion failed: " + read_string(w, i, lane, message) + " (" + read_string(w, i, lane, file) +
                  ":" + std::to_string(line) + ")");
}

std::uint64_t parameter_offset(Builder& b, const Operand& operand) {
  if (operand.kind != OperandKind::kSymbol || b.module().symbols[operand.index].space != Space::kParam) {
    b.refuse("call arguments must be .param variables");
  }
  return b.decoder().symbol_offset(operand.index);
}

// Functions that the driver would supply.
Handler supplied(std::string_view name, std::size_t arguments) {
  if (name == "vprintf" && arguments == 2) return call_printf;
  if (name == "__assertfail" && arguments >= 3) return call_assertfail;
  return nullptr;
}

void build_direct(Builder& b, std::uint32_t target, std::size_t arguments, std::size_t results) {
  const Function& callee = b.module().functions[target];
  if (!callee.defined) {
    b.inst.body = supplied(callee.name, arguments);
    if (b.inst.body == nullptr) b.refuse("function " + std::string(callee.name) + " has no body");
    return;
  }
  if (callee.entry || callee.register_parameters)
    b.refuse("only functions with .param parameters can be called");
  b.inst.target = b.decoder().called(target);
  b.decoder().calls(b.inst.target);
  const ProgramFunction& shape = b.decoder().program().functions[b.inst.target];
  if (shape.parameters.size() != arguments || shape.returns.size() != results) {
    b.refuse("the call does not fit the declaration of " + std::string(callee.name));
  }
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
  for (const Operand& argument : arguments) site.arguments.push_back(parameter_offset(b, argument));
  for (const Operand& result : results) site.results.push_back(parameter_offset(b, result));
  b.extra().payload = std::move(site);
  if (target.kind == OperandKind::kFunction)
    return build_direct(b, target.index, arguments.size(), results.size());
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
