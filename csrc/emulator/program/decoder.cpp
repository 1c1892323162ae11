#include "emulator/program/decoder.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/front/error.hpp"
#include "emulator/memory/aperture.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kUnplaced = 0xffffffffu;

std::uint64_t aligned(std::uint64_t value, std::uint64_t align) {
  return (value + align - 1) / align * align;
}

}  // namespace

AlignedBytes::AlignedBytes(std::size_t bytes) : memory_(new std::uint8_t[bytes + 64]), bytes_(bytes) {
  data_ = memory_.get() + (64 - reinterpret_cast<std::uintptr_t>(memory_.get()) % 64) % 64;
}

std::string source_of(const Module& module, std::uint32_t location) {
  if (location == kNoIndex) return {};
  const Location& place = module.locations[location];
  const auto file = module.files.find(place.file);
  return (file == module.files.end() ? "file " + std::to_string(place.file) : file->second) + ":" +
         std::to_string(place.line);
}

std::uint32_t Decoder::temporary(char letter) {
  program_.registers.push_back(kConstantRef);
  letters_.push_back(letter);
  return static_cast<std::uint32_t>(letters_.size() - 1);
}

Ref Decoder::constant(char letter, std::uint64_t value) {
  const unsigned bytes = letter_bytes(letter);
  if (bytes < 8) value &= (std::uint64_t{1} << 8 * bytes) - 1;
  const auto [entry, fresh] = constant_refs_.try_emplace({letter, value}, 0);
  if (!fresh) return entry->second;
  const std::size_t at = aligned(constants_.size(), 64);
  constants_.resize(at + std::size_t{32} * bytes);
  for (unsigned lane = 0; lane < 32; ++lane)
    std::memcpy(&constants_[at + lane * bytes], &value, std::min(bytes, 8u));
  entry->second = static_cast<Ref>(at) | kConstantRef;
  return entry->second;
}

Extra& Decoder::extra() {
  program_.extras.emplace_back();
  return program_.extras.back();
}

void Decoder::site(std::uint16_t field, std::uint32_t reg, bool definition) {
  sites_.push_back({static_cast<std::uint32_t>(program_.code.size()), reg, field, definition});
}

void Decoder::branch_to(std::uint32_t label, Flow flow) {
  fixups_.push_back({static_cast<std::uint32_t>(program_.code.size()), label, nullptr, 0});
  leave(flow);
}

void Decoder::leave(Flow flow) {
  flows_.resize(program_.code.size() + 1, Flow::kNext);
  flows_.back() = flow;
}

void Decoder::table_targets(const Function& function, std::uint32_t label, Extra& extra) {
  const auto at = static_cast<std::uint32_t>(program_.code.size());
  const auto table = function.tables.find(label);
  if (table == function.tables.end()) throw PtxError(1, 1, "brx.idx names no .branchtargets");
  for (std::uint32_t i = 0; i < table->second.count; ++i) {
    const Operand& target = function.operands[table->second.first_operand + i];
    fixups_.push_back({at, target.index, &extra, i});
    extra.values.push_back(0);
  }
  leave(Flow::kTable);
}

// The registers that the instruction being built defines.
void Decoder::fills_later() {
  const auto at = static_cast<std::uint32_t>(program_.code.size());
  for (std::size_t i = sites_.size(); i > 0 && sites_[i - 1].inst == at; --i) {
    if (sites_[i - 1].definition) late_.push_back(sites_[i - 1].reg);
  }
}

// A wait reads and writes what it fills, so the registers are nobody else's until then.
void Decoder::filled_here(bool all) {
  const auto at = static_cast<std::uint32_t>(program_.code.size());
  std::sort(late_.begin(), late_.end());
  late_.erase(std::unique(late_.begin(), late_.end()), late_.end());
  for (const std::uint32_t reg : late_) mention_wait(at, reg);
  waits_.push_back(at);
  if (all) late_.clear();
}

void Decoder::mention_wait(std::uint32_t wait, std::uint32_t reg) {
  sites_.push_back({wait, reg, kNoField, false});
  sites_.push_back({wait, reg, kNoField, true});
}

// What is still to be filled at the end of the text is filled by a wait above it, in a loop.
void Decoder::keep_late_registers() {
  for (const std::uint32_t reg : late_) {
    for (const std::uint32_t wait : waits_) mention_wait(wait, reg);
  }
  if (!late_.empty()) {
    std::stable_sort(sites_.begin(), sites_.end(),
                     [](const Site& a, const Site& b) { return a.inst < b.inst; });
  }
  late_.clear();
  waits_.clear();
}

// An instruction without operands but a destination, in front of the one being built.
void Decoder::emit_support(Handler handler, std::uint32_t destination, std::int64_t imm) {
  // Sites already recorded belong to the instruction that comes after this one.
  const auto at = static_cast<std::uint32_t>(program_.code.size());
  std::size_t first = sites_.size();
  while (first > 0 && sites_[first - 1].inst == at) --first;
  for (std::size_t i = first; i < sites_.size(); ++i) ++sites_[i].inst;
  for (std::size_t i = fixups_.size(); i > 0 && fixups_[i - 1].inst == at; --i) ++fixups_[i - 1].inst;
  sites_.insert(sites_.begin() + static_cast<std::ptrdiff_t>(first),
                {at, destination, static_cast<std::uint16_t>(Field::kD), true});
  Inst inst{};
  inst.body = inst.fn[0] = handler;
  const Support& support = instruction_table().support;
  inst.fn[1] = support.merged[letters_[destination] == 'l' ? 4 : letters_[destination] == 'p' ? 0 : 3];
  inst.imm = imm;
  inst.d = destination;
  inst.target = 2;
  inst.guard = kNoGuard;
  inst.kind = InstClass::kMove;
  program_.code.push_back(inst);
  program_.places.push_back({0, kNoIndex, function_});
  flows_.resize(program_.code.size(), Flow::kNext);
}

std::uint32_t Decoder::local(std::uint64_t bytes, std::uint32_t align) {
  const std::uint64_t at = aligned(program_.local_bytes, std::max(align, 1u));
  if (at + bytes > 1u << 24) throw PtxError(1, 1, "more than 16 MB of local memory per thread");
  program_.local_bytes = static_cast<std::uint32_t>(at + bytes);
  return static_cast<std::uint32_t>(at);
}

std::uint32_t Decoder::static_shared(const Symbol& symbol) {
  const std::uint64_t at = aligned(shared_, std::max(symbol.align, 1u));
  if (at + symbol.bytes > kSharedOffsetMask)
    throw PtxError(1, 1, "shared variables exceed the shared-memory window");
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

// Static shared variables come first, in order of declaration; dynamic shared memory starts behind all of
// them. Like ptxas, the static size counts the gap up to where the module's dynamic shared memory may start.
void Decoder::place_shared() {
  shared_ = kSharedReserved;
  std::uint32_t align = 16;
  bool dynamic = false;
  std::vector<bool> used(module().symbols.size(), false);
  std::vector<std::uint32_t> work{program_.source};
  std::vector<bool> seen(module().functions.size(), false);
  while (!work.empty()) {
    const std::uint32_t index = work.back();
    work.pop_back();
    if (seen[index]) continue;
    seen[index] = true;
    for (const Operand& operand : module().functions[index].operands) {
      if (operand.kind == OperandKind::kSymbol) used[operand.index] = true;
      if (operand.kind == OperandKind::kFunction) work.push_back(operand.index);
    }
  }
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
  program_.dynamic_shared = static_cast<std::uint32_t>(aligned(shared_, align));
  const bool gap = dynamic && shared_ != kSharedReserved;
  program_.shared_bytes = (gap ? program_.dynamic_shared : shared_) - kSharedReserved;
}

void Decoder::layout_parameters(std::uint32_t kernel) {
  std::uint64_t at = 0;
  for (const std::uint32_t symbol : module().functions[kernel].parameters) {
    const Symbol& parameter = module().symbols[symbol];
    at = aligned(at, parameter.align);
    offsets_[symbol] = at;
    program_.parameters.push_back(
        {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(parameter.bytes)});
    at += parameter.bytes;
  }
  program_.parameter_bytes = static_cast<std::uint32_t>(at);
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
  for (const std::uint32_t caller : indirect_callers_) {
    for (const std::uint32_t callee : addressed_) calls_.emplace_back(caller, callee);
  }
  for (std::uint32_t id = 0; id < program_.functions.size(); ++id) {
    std::vector<bool> reached(program_.functions.size(), false);
    std::vector<std::uint32_t> work{id};
    while (!work.empty()) {
      const std::uint32_t at = work.back();
      work.pop_back();
      for (const auto& [caller, callee] : calls_) {
        if (caller != at || reached[callee]) continue;
        reached[callee] = true;
        work.push_back(callee);
      }
    }
    program_.functions[id].recursive = reached[id];
  }
  for (const auto& [symbol, offset] : offsets_) {
    const Symbol& variable = module().symbols[symbol];
    if (variable.space != Space::kLocal && variable.space != Space::kParam) continue;
    for (ProgramFunction& function : program_.functions) {
      if (function.source != variable.function || function.source == program_.source) continue;
      function.locals.push_back(
          {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(variable.bytes)});
    }
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

void Decoder::decode(std::uint32_t kernel) {
  program_.source = kernel;
  program_.name = std::string(module().functions[kernel].name);
  place_shared();
  layout_parameters(kernel);
  called(kernel);
  for (std::uint32_t i = 0; i < program_.functions.size(); ++i) {
    if (module().functions[program_.functions[i].source].defined) function(i);
    if (!indirect_callers_.empty()) address_tables();
  }
  find_recursion();
  program_.constants = AlignedBytes(std::max<std::size_t>(constants_.size(), 64));
  if (!constants_.empty()) std::memcpy(program_.constants.data(), constants_.data(), constants_.size());
  program_.register_bytes = static_cast<std::uint32_t>(aligned(std::max(program_.register_bytes, 64u), 64));
  for (const auto& [what, refusal] : refused_) {
    const std::string more = refusal.times > 1 ? " and " + std::to_string(refusal.times - 1) + " more" : "";
    program_.unsupported.push_back(what + " (" + refusal.where + more + ")");
  }
}

void Decoder::function(std::uint32_t id) {
  function_ = id;
  const Function& function = module().functions[program_.functions[id].source];
  first_register_ = static_cast<std::uint32_t>(letters_.size());
  for (const Type type : function.registers) letters_.push_back(letter_of(type));
  program_.registers.resize(letters_.size(), kConstantRef);
  const auto begin = static_cast<std::uint32_t>(program_.code.size());
  label_pc_.assign(function.labels.size(), kUnplaced);
  joins_.assign(function.labels.size(), false);
  for (const Operand& operand : function.operands) {
    if (operand.kind == OperandKind::kLabel) joins_[operand.index] = true;
  }
  fixups_.clear();
  edges_.clear();
  std::size_t next_label = 0;
  for (std::uint32_t i = 0; i < function.body.size(); ++i) {
    place_labels(function, i, next_label);
    statement(function, function.body[i]);
  }
  place_labels(function, static_cast<std::uint32_t>(function.body.size()), next_label);
  // Falling off the end returns.
  if (program_.code.size() == begin || flows_.back() == Flow::kNext || flows_.back() == Flow::kBranch ||
      std::find(label_pc_.begin(), label_pc_.end(), program_.code.size()) != label_pc_.end()) {
    const auto last =
        static_cast<std::uint32_t>(function.body.empty() ? function.line : function.body.back().line);
    const Form form = instruction_table().match("ret");
    const Statement ret{kNoIndex, 0, 0, false, kNoIndex, last, kNoIndex};
    Builder builder(*this, function, ret, form);
    form.row->build(builder);
    emit(builder);
  }
  const auto end = static_cast<std::uint32_t>(program_.code.size());
  for (const Fixup& fixup : fixups_) {
    const std::uint32_t target = label_pc_[fixup.label];
    edges_.emplace_back(fixup.inst, target);
    if (fixup.extra != nullptr) {
      fixup.extra->values[fixup.slot] = target;
    } else {
      program_.code[fixup.inst].target = target;
    }
  }
  std::sort(edges_.begin(), edges_.end());
  program_.functions[id].begin = begin;
  program_.functions[id].end = end;
  program_.functions[id].first_register = first_register_;
  keep_late_registers();
  allocate_registers(*this, begin, end);
  order_blocks(program_, begin, end, flows_, edges_);
}

void Decoder::place_labels(const Function& function, std::uint32_t index, std::size_t& next) {
  bool join = false;
  const std::size_t first = next;
  for (; next < function.labels.size() && function.labels[next].statement == index; ++next)
    join = join || joins_[next];
  if (join && !flows_.empty() && (flows_.back() == Flow::kNext || flows_.back() == Flow::kBranch)) {
    Inst inst{};
    inst.body = inst.fn[0] = inst.fn[1] = instruction_table().support.join;
    inst.guard = kNoGuard;
    inst.kind = InstClass::kControl;
    program_.code.push_back(inst);
    program_.places.push_back({0, kNoIndex, function_});
    flows_.resize(program_.code.size(), Flow::kNext);
  }
  for (std::size_t i = first; i < next; ++i) label_pc_[i] = static_cast<std::uint32_t>(program_.code.size());
}

const Form& Decoder::form(std::uint32_t opcode) {
  const auto [entry, fresh] = forms_.try_emplace(opcode);
  if (fresh) entry->second = instruction_table().match(module().opcodes[opcode]);
  return entry->second;
}

void Decoder::statement(const Function& function, const Statement& statement) {
  const Form& matched = form(statement.opcode);
  if (matched.row == nullptr)
    return refuse(statement, "unknown instruction " + std::string(matched.mnemonic));
  const std::size_t sites = sites_.size(), fixups = fixups_.size(), code = program_.code.size();
  Builder builder(*this, function, statement, matched);
  try {
    flows_.resize(code, Flow::kNext);
    matched.row->build(builder);
    emit(builder);
  } catch (const PtxError& error) {
    sites_.resize(sites);
    fixups_.resize(fixups);
    program_.code.resize(code);
    program_.places.resize(code);
    flows_.resize(code);
    refuse(statement, error.what());
  }
}

void Decoder::emit(Builder& builder) {
  Inst& inst = builder.inst;
  const Row& row = *builder.form.row;
  inst.kind = inst.kind == InstClass{} ? row.kind : inst.kind;
  if (inst.body == nullptr) inst.body = row.handler;
  inst.guard = kNoGuard;
  if (builder.statement.guard != kNoIndex) {
    site(static_cast<std::uint16_t>(Field::kGuard), register_index(builder.statement.guard), false);
    inst.guard = builder.statement.guard_negated ? 1 : 0;
  }
  if (inst.fn[0] == nullptr) {
    inst.fn[0] = inst.fn[1] = inst.guard == kNoGuard ? inst.body : instruction_table().support.guarded;
  }
  program_.code.push_back(inst);
  program_.places.push_back(
      {builder.statement.line, builder.statement.location, function_, builder.statement.opcode});
  flows_.resize(program_.code.size(), Flow::kNext);
}

// Each cause is listed once, with the place where it was seen first.
void Decoder::refuse(const Statement& statement, const std::string& what) {
  const auto [entry, fresh] = refused_.try_emplace(what);
  ++entry->second.times;
  if (!fresh) return;
  const std::string source = source_of(module(), statement.location);
  entry->second.where = "PTX line " + std::to_string(statement.line) + (source.empty() ? "" : ", " + source);
}

std::unique_ptr<Program> decode_kernel(std::shared_ptr<const Image> image, std::uint32_t function) {
  auto program = std::make_unique<Program>();
  program->image = image;
  Decoder decoder(*program, *image);
  decoder.decode(function);
  return program;
}

}  // namespace sglab::emu
