#include "machine/program/decoder.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "isa/aperture.hpp"
#include "machine/float/environment.hpp"
#include "machine/front/error.hpp"
#include "machine/front/special.hpp"
#include "machine/program/early_uses.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kUnplaced = 0xffffffffu;
constexpr std::uint32_t kMostTargets = 1 << 20;

void make_unique(std::vector<std::uint32_t>& all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace

AlignedBytes::AlignedBytes(std::size_t bytes)
    : memory_(static_cast<std::uint8_t*>(std::calloc(bytes + 64, 1))), bytes_(bytes) {
  if (memory_ == nullptr) throw std::bad_alloc();
  data_ = memory_.get() + (64 - reinterpret_cast<std::uintptr_t>(memory_.get()) % 64) % 64;
}

std::string_view opcode_of(const Program& program, std::uint32_t pc) {
  const std::uint32_t opcode = program.places[pc].opcode;
  return opcode == kNoIndex ? std::string_view{} : program.image->module().opcodes[opcode];
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
  const std::size_t at = round_up(constants_.size(), 64);
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
  // Each is an edge for every analysis of the control flow: a short text could name billions.
  if (table->second.count > kMostTargets - targets_)
    throw PtxError(1, 1,
                   "jump tables of more than " + std::to_string(kMostTargets) +
                       " targets together, one table per brx.idx");
  targets_ += table->second.count;
  BranchTargets& targets = extra.payload.emplace<BranchTargets>();
  targets.pcs.resize(table->second.count);
  for (std::uint32_t i = 0; i < table->second.count; ++i) {
    const Operand& target = function.operands[table->second.first_operand + i];
    fixups_.push_back({at, target.index, &targets, i});
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

// A wait reads and writes what it fills, so no other instruction may use the registers until then. A
// register's place is its own from its first mention to its last: of several waits the last one counts.
void Decoder::filled_here(bool all) {
  const auto at = static_cast<std::uint32_t>(program_.code.size());
  waits_.push_back(at);
  if (!all) return;
  make_unique(late_);
  for (const std::uint32_t reg : late_) mention_wait(at, reg);
  late_.clear();
}

void Decoder::mention_wait(std::uint32_t wait, std::uint32_t reg) {
  sites_.push_back({wait, reg, kNoField, false});
  sites_.push_back({wait, reg, kNoField, true});
}

// What is still to be filled at the end of the text is filled by a wait above it, in a loop.
void Decoder::keep_late_registers() {
  make_unique(late_);
  for (const std::uint32_t reg : late_) {
    if (waits_.empty()) break;
    mention_wait(waits_.front(), reg);
    mention_wait(waits_.back(), reg);
  }
  if (!late_.empty()) {
    std::stable_sort(sites_.begin(), sites_.end(),
                     [](const Site& a, const Site& b) { return a.inst < b.inst; });
  }
  late_.clear();
  waits_.clear();
}

// An instruction without operands but a destination, before the one being built.
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
  inst.fn[1] = support.merged[width_index(letters_[destination])];
  inst.imm = imm;
  inst.d = destination;
  inst.target = 2;
  inst.guard = kNoGuard;
  inst.kind = InstClass::kMove;
  add(inst, {0, kNoIndex, function_}, {});
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
  program_.register_bytes = static_cast<std::uint32_t>(round_up(std::max(program_.register_bytes, 64u), 64));
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
  if (begin == 0) reserve(function.body.size() + function.body.size() / 8 + function.labels.size());
  label_pc_.assign(function.labels.size(), kUnplaced);
  joins_.assign(function.labels.size(), false);
  for (const Operand& operand : function.operands) {
    if (operand.kind == OperandKind::kLabel) joins_[operand.index] = true;
  }
  fixups_.clear();
  edges_.clear();
  std::size_t next_label = 0;
  for (std::uint32_t i = 0; i < function.body.size(); ++i) {
    poll_.step();
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
    builder.build();
    emit(builder);
  }
  const auto end = static_cast<std::uint32_t>(program_.code.size());
  for (const Fixup& fixup : fixups_) {
    const std::uint32_t target = label_pc_[fixup.label];
    edges_.emplace_back(fixup.inst, target);
    if (fixup.table != nullptr) {
      fixup.table->pcs[fixup.slot] = target;
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
  order_blocks(program_, begin, end, flows_, edges_, poll_);
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
    add(inst, {0, kNoIndex, function_}, {});
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
    builder.build();
    emit(builder);
  } catch (const PtxError& error) {
    sites_.resize(sites);
    fixups_.resize(fixups);
    program_.code.resize(code);
    program_.places.resize(code);
    program_.effects.resize(code);
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
  add(inst, {builder.statement.line, builder.statement.location, function_, builder.statement.opcode},
      builder.effects);
}

void Decoder::reserve(std::size_t instructions) {
  program_.code.reserve(instructions);
  program_.places.reserve(instructions);
  program_.effects.reserve(instructions);
  flows_.reserve(instructions);
}

void Decoder::add(const Inst& inst, const Place& place, const Effects& effects) {
  program_.code.push_back(inst);
  program_.places.push_back(place);
  program_.effects.push_back(effects);
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

namespace {

// Whether some instruction reads the special register.
template <class Which>
bool reads(const Program& program, Which which) {
  const Support& support = instruction_table().support;
  return std::any_of(program.code.begin(), program.code.end(), [&](const Inst& inst) {
    const auto is = [&](Handler handler) {
      return handler == support.special32 || handler == support.special64;
    };
    return (is(inst.fn[0]) || is(inst.body)) && which(static_cast<Special>(inst.imm));
  });
}

bool reads(const Program& program, Special special) {
  return reads(program, [&](Special read) { return read == special; });
}

// As if every loop were run 32 times, nested ones no oftener.
std::uint64_t likely_length(const Program& program) {
  constexpr std::uint64_t kTurns = 32;
  std::uint64_t length = program.code.size();
  std::size_t counted = 0;  // all before are, or are in no loop
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    if (program.effects[pc].act != Act::kBranch || program.code[pc].target > pc) continue;
    length += (kTurns - 1) * (pc + 1 - std::max<std::size_t>(program.code[pc].target, counted));
    counted = pc + 1;
  }
  return length;
}

}  // namespace

std::unique_ptr<Program> decode_kernel(std::shared_ptr<const Image> image, std::uint32_t function,
                                       const std::function<bool()>& interrupted) {
  const PlainArithmetic plain;  // for constants
  auto program = std::make_unique<Program>();
  program->image = image;
  Decoder decoder(*program, *image, Poll(&interrupted));
  decoder.decode(function);
  program->early_uses = find_early_uses(*program);
  program->uses_reserved_shared = reads(*program, Special::kReservedSmem1);
  program->uses_grid_workspace = reads(*program, Special::kEnvreg1) || reads(*program, Special::kEnvreg2);
  program->uses_clock = reads(*program, is_clock);
  program->likely_length = likely_length(*program);
  program->clusters_meet |= program->uses_clock || program->uses_grid_workspace ||
                            program->uses_device_heap ||
                            std::any_of(program->effects.begin(), program->effects.end(), meets_clusters);
  return program;
}

}  // namespace sglab::emu
