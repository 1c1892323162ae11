#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "isa/aperture.hpp"
#include "machine/front/error.hpp"
#include "machine/program/decoder.hpp"
#include "machine/program/shared_layout.hpp"

// Where a kernel's variables and parameters are, and which functions it can reach.
namespace sglab::emu {
namespace {

// Which variables a function and those it may call name.
std::vector<bool> used_symbols(const Module& module, std::uint32_t function) {
  std::vector<bool> used(module.symbols.size(), false);
  std::vector<std::uint32_t> work{function};
  std::vector<bool> seen(module.functions.size(), false);
  while (!work.empty()) {
    const std::uint32_t index = work.back();
    work.pop_back();
    if (seen[index]) continue;
    seen[index] = true;
    for (const Operand& operand : module.functions[index].operands) {
      if (operand.kind == OperandKind::kSymbol) used[operand.index] = true;
      if (operand.kind == OperandKind::kFunction) work.push_back(operand.index);
    }
  }
  return used;
}

using Calls = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// Functions that can come back to themselves: the strongly connected components of the call graph (Tarjan,
// "Depth-first search and linear graph algorithms", 1972), with a path of its own instead of recursion.
class Circles {
 public:
  Circles(std::size_t functions, Calls calls)
      : calls_(std::move(calls)), order_(functions, 0), low_(functions, 0), is_open_(functions, false) {
    std::sort(calls_.begin(), calls_.end());
    calls_.erase(std::unique(calls_.begin(), calls_.end()), calls_.end());
    next_.assign(functions + 1, 0);
    for (const auto& [caller, callee] : calls_) ++next_[caller + 1];
    for (std::size_t i = 0; i < functions; ++i) next_[i + 1] += next_[i];
    end_.assign(next_.begin() + 1, next_.end());
  }

  std::vector<std::uint32_t> find() {
    for (std::uint32_t root = 0; root < order_.size(); ++root) {
      if (order_[root] == 0) walk(root);
    }
    return std::move(found_);
  }

 private:
  void walk(std::uint32_t root) {
    path_.push_back(root);
    while (!path_.empty()) {
      const std::uint32_t at = path_.back();
      if (order_[at] == 0) {
        order_[at] = low_[at] = ++visited_;
        open_.push_back(at);
        is_open_[at] = true;
      }
      if (next_[at] < end_[at]) {
        const std::uint32_t callee = calls_[next_[at]++].second;
        if (order_[callee] == 0)
          path_.push_back(callee);
        else if (is_open_[callee])
          low_[at] = std::min(low_[at], order_[callee]);
        continue;
      }
      path_.pop_back();
      if (!path_.empty()) low_[path_.back()] = std::min(low_[path_.back()], low_[at]);
      if (low_[at] == order_[at]) close(at);
    }
  }

  // The open functions from `first` on are a component; one of a single function is a circle if that calls
  // itself.
  void close(std::uint32_t first) {
    const bool circle =
        open_.back() != first || std::binary_search(calls_.begin(), calls_.end(), std::pair{first, first});
    for (std::uint32_t member = kNoIndex; member != first;) {
      member = open_.back();
      open_.pop_back();
      is_open_[member] = false;
      if (circle) found_.push_back(member);
    }
  }

  Calls calls_;                             // sorted
  std::vector<std::uint32_t> next_, end_;   // by function: its calls that are left
  std::vector<std::uint32_t> order_, low_;  // when a function was visited; the earliest it leads back to
  std::vector<bool> is_open_;
  std::vector<std::uint32_t> open_, path_, found_;
  std::uint32_t visited_ = 0;
};

}  // namespace

std::vector<SharedVariable> shared_variables(const Program& program) {
  const Module& module = program.image->module();
  const std::vector<bool> used = used_symbols(module, program.source);
  std::vector<SharedVariable> all;
  std::uint32_t at = kSharedReserved;
  for (std::uint32_t i = 0; i < module.symbols.size(); ++i) {
    const Symbol& symbol = module.symbols[i];
    if (symbol.space != Space::kShared || !used[i]) continue;
    if (symbol.external) {
      all.push_back({symbol.name, program.dynamic_shared, 0});
      continue;
    }
    at = static_cast<std::uint32_t>(round_up(at, std::max(symbol.align, 1u)));
    all.push_back({symbol.name, at, static_cast<std::uint32_t>(symbol.bytes)});
    at += static_cast<std::uint32_t>(symbol.bytes);
  }
  return all;
}

std::uint32_t Decoder::local(std::uint64_t bytes, std::uint32_t align) {
  const std::uint64_t at = round_up(program_.local_bytes, std::max(align, 1u));
  if (at + bytes > kMostLocal) {
    throw PtxError(1, 1,
                   "more than " + std::to_string(kMostLocal) +
                       " bytes of local memory per thread, as many "
                       "as a GPU has");
  }
  program_.local_bytes = static_cast<std::uint32_t>(at + bytes);
  return static_cast<std::uint32_t>(at);
}

std::uint32_t Decoder::static_shared(const Symbol& symbol) {
  const std::uint64_t at = round_up(shared_, std::max(symbol.align, 1u));
  if (at + symbol.bytes > kSharedOffsetMask)
    throw PtxError(symbol.line, 1, "shared variables exceed the shared-memory window");
  shared_ = static_cast<std::uint32_t>(at + symbol.bytes);
  return static_cast<std::uint32_t>(at);
}

std::uint64_t Decoder::symbol_offset(std::uint32_t index) {
  const Symbol& symbol = module().symbols[index];
  if (symbol.space == Space::kGlobal || symbol.space == Space::kConst) {
    if (symbol.external)
      throw PtxError(1, 1, "external variable " + std::string(symbol.name) + " is not defined");
    return image_.address(index);
  }
  const auto known = offsets_.find(index);
  if (known != offsets_.end()) return known->second;
  std::uint64_t offset = 0;
  if (symbol.space == Space::kShared) {
    offset = symbol.external ? program_.dynamic_shared : static_shared(symbol);
  } else {
    offset = local(symbol.bytes, symbol.align);
  }
  offsets_[index] = offset;
  return offset;
}

// Static shared variables come first, in order of declaration; dynamic shared memory starts after all of
// them. Like ptxas, the static size counts the gap up to where the module's dynamic shared memory may start.
void Decoder::place_shared() {
  shared_ = kSharedReserved;
  std::uint32_t align = 16;
  bool dynamic = false;
  const std::vector<bool> used = used_symbols(module(), program_.source);
  for (std::uint32_t i = 0; i < module().symbols.size(); ++i) {
    const Symbol& symbol = module().symbols[i];
    if (symbol.space != Space::kShared) continue;
    if (symbol.external) {
      align = std::max(align, symbol.align);
      dynamic = true;
    } else if (used[i]) {
      offsets_[i] = static_shared(symbol);
    }
  }
  program_.dynamic_shared = static_cast<std::uint32_t>(round_up(shared_, align));
  const bool gap = dynamic && shared_ != kSharedReserved;
  program_.shared_bytes = (gap ? program_.dynamic_shared : shared_) - kSharedReserved;
}

void Decoder::layout_parameters(std::uint32_t kernel) {
  const Function& function = module().functions[kernel];
  for (const std::uint32_t symbol : function.parameters) {
    const Symbol& parameter = module().symbols[symbol];
    offsets_[symbol] = parameter.offset;
    program_.parameters.push_back({parameter.offset, static_cast<std::uint32_t>(parameter.bytes)});
  }
  program_.parameter_bytes = function.parameter_bytes;
}

// Functions that variables point to can be called indirectly.
void Decoder::address_tables() {
  if (tables_done_) return;
  tables_done_ = true;
  for (const Symbol& symbol : module().symbols) {
    for (const Relocation& relocation : symbol.relocations) {
      if (relocation.function != kNoIndex) takes_address(relocation.function);
    }
  }
}

// A function is recursive if calls lead from it back to it.
void Decoder::find_recursion() {
  // Indirect calls go through a node of their own, which stands for whatever function they reach.
  const auto any = static_cast<std::uint32_t>(program_.functions.size());
  for (const std::uint32_t caller : indirect_callers_) calls_.emplace_back(caller, any);
  for (const std::uint32_t callee : addressed_) calls_.emplace_back(any, callee);
  for (const std::uint32_t id : Circles(program_.functions.size() + 1, calls_).find()) {
    if (id != any) program_.functions[id].recursive = true;
  }
  for (const auto& [symbol, offset] : offsets_) {
    const Symbol& variable = module().symbols[symbol];
    if (variable.space != Space::kLocal && variable.space != Space::kParam) continue;
    const auto owner = function_ids_.find(variable.function);
    if (owner == function_ids_.end() || variable.function == program_.source) continue;
    program_.functions[owner->second].locals.push_back(
        {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(variable.bytes)});
  }
}

std::uint32_t Decoder::called(std::uint32_t index) {
  const auto known = function_ids_.find(index);
  if (known != function_ids_.end()) return known->second;
  const auto id = static_cast<std::uint32_t>(program_.functions.size());
  function_ids_[index] = id;
  ProgramFunction made;
  made.source = index;
  const Function& function = module().functions[index];
  if (!function.entry && !function.register_parameters) {
    for (const bool result : {false, true}) {
      for (const std::uint32_t symbol : result ? function.returns : function.parameters) {
        const auto offset = static_cast<std::uint32_t>(symbol_offset(symbol));
        (result ? made.returns : made.parameters)
            .push_back({offset, static_cast<std::uint32_t>(module().symbols[symbol].bytes)});
      }
    }
  }
  program_.functions.push_back(std::move(made));
  return id;
}

}  // namespace sglab::emu
