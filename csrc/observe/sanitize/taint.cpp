#include "observe/sanitize/taint.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "machine/ops/operands.hpp"
#include "machine/program/builder.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kPredicateKey = 0x40000000u;
std::uint32_t key_of(const Mention& m) {
  return m.place | (m.predicate ? kPredicateKey : 0);
}

}  // namespace

void Taint::launched(const Program& program) {
  clusters_.clear();
  cached_ = nullptr;
  derived_ = 0;
  absent_ = 0;
  origins_.clear();
  if (program_ == &program) return;
  program_ = &program;
  first_.clear();
  register_bytes_.clear();
  find_unset();
}

// Only needed once something is tainted.
void Taint::prepare() {
  first_.assign(program_->code.size() + 1, 0);
  for (const Mention& m : program_->mentions) ++first_[m.inst + 1];
  for (std::size_t pc = 0; pc < program_->code.size(); ++pc) first_[pc + 1] += first_[pc];
}

void Taint::find_unset() {
  unset_.clear();
  at_start_ = {};
  at_start_.unset = 0;
  mentions_unset_.assign(program_->code.size(), 0);
  for (const Mention& m : program_->unset)
    unset_.try_emplace(key_of(m), static_cast<std::uint32_t>(unset_.size() % 64));
  if (unset_.empty()) return;
  for (const Mention& m : program_->mentions) {
    const auto found = unset_.find(key_of(m));
    if (found != unset_.end()) mentions_unset_[m.inst] |= std::uint64_t{1} << found->second;
  }
  const auto code = static_cast<std::uint32_t>(program_->code.size());
  for (std::uint32_t i = 0; i < program_->unset.size(); ++i)
    at_start_.tainted.emplace_back(key_of(program_->unset[i]), Mask::all(0xffffffffu, code + i));
  std::sort(at_start_.tainted.begin(), at_start_.tainted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, mask] : at_start_.tainted) count(at_start_, key, true);
}

std::string Taint::name_of(const Mention& mention) const {
  const ProgramFunction& kernel = program_->functions[0];
  const Function& function = program_->image->module().functions[kernel.source];
  for (std::uint32_t i = 0; i < function.registers.size(); ++i) {
    const bool predicate = letter_of(function.registers[i]) == 'p';
    if (predicate == mention.predicate && program_->registers[kernel.first_register + i] == mention.place &&
        program_->lifetimes[kernel.first_register + i].start == 0)
      return register_name(function, i);
  }
  return "a register";
}

void Taint::cluster_started(const Cluster& cluster) {
  cached_ = nullptr;
  std::vector<Registers>& warps = clusters_[cluster.index];
  if (!spare_.empty()) {
    warps = std::move(spare_.back());
    spare_.pop_back();
    for (Registers& registers : warps) registers.reset();
  }
  warps.resize(cluster.warps.size());
}

void Taint::cluster_finished(const Cluster& cluster) {
  cached_ = nullptr;
  const auto found = clusters_.find(cluster.index);
  if (found == clusters_.end()) return;
  for (const Registers& registers : found->second) derived_ -= registers.derived;
  spare_.push_back(std::move(found->second));
  clusters_.erase(found);
}

Taint::Registers& Taint::warp(const Warp& w) {
  Registers& registers = known(w);
  if (registers.begun) return registers;
  registers.begun = true;
  registers.tainted = at_start_.tainted;
  registers.unset = at_start_.unset;
  registers.marked = at_start_.marked;
  return registers;
}

// The register has become tainted, or clean.
void Taint::count(Registers& registers, std::uint32_t key, bool tainted) {
  const auto found = unset_.find(key);
  if (found == unset_.end()) {
    if (tainted)
      ++registers.derived, ++derived_;
    else
      --registers.derived, --derived_;
    return;
  }
  const std::uint64_t mark = std::uint64_t{1} << found->second;
  std::uint16_t& marked = registers.marked[found->second];
  marked = static_cast<std::uint16_t>(tainted ? marked + 1 : marked - 1);
  registers.unset = marked != 0 ? registers.unset | mark : registers.unset & ~mark;
}

Taint::Mask Taint::of(const Warp& w, const Mention& mention) {
  Registers& registers = warp(w);
  const std::uint32_t key = key_of(mention);
  const auto found = registers.at(key);
  return found == registers.tainted.end() || found->first != key ? Mask{} : found->second;
}

void Taint::assign(const Warp& w, const Mention& destination, std::uint32_t lanes, Mask mask) {
  Registers& registers = warp(w);
  const std::uint32_t key = key_of(destination);
  const auto found = registers.at(key);
  mask.keep(lanes);
  if (found == registers.tainted.end() || found->first != key) {
    if (mask.lanes() == 0) return;
    registers.tainted.insert(found, {key, mask});
    count(registers, key, true);
    return;
  }
  found->second.keep(~lanes);
  found->second.add(mask);
  if (found->second.lanes() != 0) return;
  registers.tainted.erase(found);
  count(registers, key, false);
}

std::uint32_t Taint::loaded(const Actor& actor, const char* space, std::uint64_t address, std::uint64_t bytes,
                            Read read) {
  const std::size_t before =
      static_cast<std::size_t>(read) * (program_->code.size() + program_->unset.size());
  const auto origin = static_cast<std::uint32_t>(before + pc_of(actor));
  origins_[origin] = {party(actor), space, address, bytes, read};
  return origin;
}

// What was read of what was never written.
std::string Taint::said(const Origin& origin) {
  if (origin.space != "tensor") {
    return std::to_string(origin.bytes) + " bytes of " + origin.space + " memory at " + hex(origin.address) +
           " are read that hold nothing initialised";
  }
  const std::uint64_t first = origin.address & 0xffff, columns = origin.bytes / 4;
  return (origin.read == Read::kAccumulator ? "tcgen05.mma adds to column" : "the instruction reads column") +
         (columns == 1 ? " " + std::to_string(first)
                       : "s " + std::to_string(first) + " to " + std::to_string(first + columns - 1)) +
         " of tensor memory, not all of which was written since its allocation";
}

void Taint::decides(const Actor& actor, const Mention& source, std::uint32_t lanes, const char* how) {
  const Mask mask = of(*actor.warp, source);
  if ((mask.lanes() & lanes) == 0) return;
  assign(*actor.warp, source, 0xffffffffu, {});
  const auto code = static_cast<std::uint32_t>(program_->code.size());
  const Origin& origin = origins_[mask.origin];
  Finding finding;
  finding.detector = "memory";
  Actor some = actor;
  some.lanes = mask.lanes() & lanes;
  if (mask.origin >= code && mask.origin - code < program_->unset.size()) {
    finding.kind = "uninitialised_register";
    finding.message = "register " + name_of(program_->unset[mask.origin - code]) +
                      " was never written, but its value " + how;
    finding.at = party(some);
  } else if (origin.space.empty()) {
    finding.kind = "shuffle_from_absent_lane";
    finding.message =
        "shfl.sync takes a value from a lane that does not take part (it has exited, names another member "
        "mask "
        "or is at another operation), and the value " +
        std::string(how);
    finding.at = origin.at;
    finding.other = party(some);
    finding.other_did = "used the value";
  } else {
    finding.kind = "uninitialised_read";
    finding.message = said(origin) + ", and the value " + how;
    finding.at = origin.at;
    finding.other = party(some);
    finding.other_did = "used the value";
    finding.space = origin.space;
    finding.address = origin.address;
    finding.bytes = origin.bytes;
  }
  findings_.report(std::move(finding));
}

}  // namespace sglab::emu
