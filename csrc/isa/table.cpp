#include "isa/table.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "isa/types.hpp"

namespace sglab::emu {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(InstClass::kCount)> kClassNames{
    "integer", "float", "half",   "convert", "move",    "compare", "control", "global",        "shared",
    "local",   "param", "atomic", "warp",    "barrier", "async",   "matrix",  "tensor_memory", "other",
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Opcodes of several words, as ptxas names them. What follows an opcode may come in any order.
constexpr std::string_view kOpcodes[] = {
    "bar.arrive",
    "bar.cta",
    "bar.cta.arrive",
    "bar.cta.red",
    "bar.red",
    "bar.warp.sync",
    "barrier.arrive",
    "barrier.cluster.arrive",
    "barrier.cluster.wait",
    "barrier.cta",
    "barrier.cta.arrive",
    "barrier.cta.red",
    "barrier.red",
    "brx.idx",
    "clusterlaunchcontrol.query_cancel",
    "clusterlaunchcontrol.try_cancel.async",
    "cp.async",
    "cp.async.bulk",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.prefetch",
    "cp.async.bulk.prefetch.tensor",
    "cp.async.bulk.tensor",
    "cp.async.bulk.wait_group",
    "cp.async.commit_group",
    "cp.async.mbarrier.arrive",
    "cp.async.wait_all",
    "cp.async.wait_group",
    "cp.reduce.async.bulk",
    "cp.reduce.async.bulk.tensor",
    "createpolicy.cvt",
    "createpolicy.fractional",
    "createpolicy.range",
    "cvt.pack",
    "cvta.to",
    "div.full",
    "dp2a.hi",
    "dp2a.lo",
    "fence.mbarrier_init",
    "fence.proxy",
    "mad.hi",
    "mad.lo",
    "mad.wide",
    "mad24.hi",
    "mad24.lo",
    "madc.hi",
    "madc.lo",
    "mbarrier.arrive",
    "mbarrier.arrive.expect_tx",
    "mbarrier.arrive_drop",
    "mbarrier.arrive_drop.expect_tx",
    "mbarrier.complete_tx",
    "mbarrier.expect_tx",
    "mbarrier.init",
    "mbarrier.inval",
    "mbarrier.pending_count",
    "mbarrier.test_wait",
    "mbarrier.test_wait.parity",
    "mbarrier.try_wait",
    "mbarrier.try_wait.parity",
    "mul.hi",
    "mul.lo",
    "mul.wide",
    "mul24.hi",
    "mul24.lo",
    "multimem.ld_reduce",
    "multimem.red",
    "multimem.st",
    "red.async",
    "setmaxnreg.dec",
    "setmaxnreg.inc",
    "shf.l",
    "shf.r",
    "st.async",
    "st.bulk",
    "tcgen05.alloc",
    "tcgen05.commit",
    "tcgen05.cp",
    "tcgen05.dealloc",
    "tcgen05.ld",
    "tcgen05.ld.red",
    "tcgen05.mma",
    "tcgen05.mma.ws",
    "tcgen05.relinquish_alloc_permit",
    "tcgen05.shift",
    "tcgen05.st",
    "tensormap.cp_fenceproxy",
    "tensormap.replace",
    "wgmma.commit_group",
    "wgmma.fence",
    "wgmma.mma_async",
    "wgmma.wait_group",
    "wmma.load",
    "wmma.mma",
    "wmma.store",
};

// How many parts of a mnemonic belong to its opcode, the first word aside.
std::size_t opcode_parts(std::string_view mnemonic) {
  std::size_t most = 0;
  for (const std::string_view name : kOpcodes) {
    if (!mnemonic.starts_with(name)) continue;
    if (mnemonic.size() != name.size() && mnemonic[name.size()] != '.') continue;
    most = std::max(most, static_cast<std::size_t>(std::count(name.begin(), name.end(), '.')));
  }
  return most;
}

// Whether the parts, in this order, begin with the same opcode as the mnemonic.
bool same_opcode(std::string_view mnemonic, std::span<const std::string_view> parts) {
  std::string text(mnemonic.substr(0, mnemonic.find('.')));
  for (const std::string_view part : parts) text.append(".").append(part);
  return opcode_parts(text) == opcode_parts(mnemonic);
}

// Qualifiers of one kind speak of operands one after the other, so they keep their order.
enum class PartKind : std::uint8_t { kOther, kType, kSpace, kLayout };

PartKind kind_of(std::string_view part) {
  if (part == "row" || part == "col") return PartKind::kLayout;
  if (part == "global" || part == "local" || part == "const" || part.starts_with("param") ||
      part.starts_with("shared"))
    return PartKind::kSpace;
  const std::size_t digit = part.find_first_of("0123456789");
  constexpr std::string_view kTypes[] = {"b", "s", "u", "f", "bf", "tf", "e", "ue"};
  return std::find(std::begin(kTypes), std::end(kTypes), part.substr(0, digit)) != std::end(kTypes) &&
                 digit != std::string_view::npos
             ? PartKind::kType
             : PartKind::kOther;
}

using PartList = std::vector<std::string_view>;

// Whether the parts satisfy the items in some order; the first `fixed` parts stay where they are. `found`:
// the parts in the order of the items.
template <class Item>
bool arrange(std::span<const Item> items, const PartList& parts, std::size_t fixed, PartList& found) {
  if (parts.size() > items.size()) return false;  // an item takes one part at most
  if (items.empty()) return true;
  const Item& item = items.front();
  for (std::size_t at = 0; at < (fixed > 0 ? std::min<std::size_t>(1, parts.size()) : parts.size()); ++at) {
    const std::string_view part = parts[at];
    if (std::find(item.choices.begin(), item.choices.end(), part) == item.choices.end()) continue;
    const PartKind kind = kind_of(part);
    const auto same = [&](std::string_view other) { return kind_of(other) == kind; };
    if (kind != PartKind::kOther &&
        std::any_of(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(at), same))
      continue;
    PartList rest = parts;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    found.push_back(part);
    if (arrange(items.subspan(1), rest, fixed > 0 ? fixed - 1 : 0, found)) return true;
    found.pop_back();
  }
  return item.optional && arrange(items.subspan(1), parts, fixed, found);
}

}  // namespace

const char* class_name(InstClass value) {
  return kClassNames[static_cast<std::size_t>(value)];
}

bool Form::has(std::string_view part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

std::string_view Form::type(unsigned n) const {
  for (const std::string_view part : parts) {
    if (type_from_name(part) != Type::kNone && n-- == 0) return part;
  }
  return {};
}

void Table::family(const char* name, InstClass kind) {
  family_ = name;
  kind_ = kind;
  stated_ = false;
}

void Table::effects(const Effects& effects) {
  effects_ = effects;
  stated_ = true;
}

void Table::type(const char* type, char narrow, char wide) {
  type_ = type;
  narrow_ = narrow;
  wide_ = wide;
}

void Table::alu(const char* pattern, const char* signature, Handler handler, std::int64_t argument) {
  if (!stated_) throw std::logic_error(std::string("nothing says what ") + pattern + " does");
  alu(pattern, signature, effects_, handler, argument);
}

void Table::alu(const char* pattern, const char* signature, const Effects& effects, Handler handler,
                std::int64_t argument) {
  std::string letters(signature);
  std::replace(letters.begin(), letters.end(), 'n', narrow_);
  std::replace(letters.begin(), letters.end(), 'N', wide_);
  add({pattern, family_, kind_, nullptr, std::move(letters), handler, argument, effects});
}

void Table::row(const char* pattern, const Effects& effects, Build build, Handler handler,
                std::int64_t argument) {
  add({pattern, family_, kind_, build, {}, handler, argument, effects});
}

void Table::add(Row row) {
  for (std::size_t at = 0; (at = row.pattern.find('$', at)) != std::string::npos; at += type_.size())
    row.pattern.replace(at, 1, type_);
  Pattern pattern = compile(row.pattern);
  pattern.row = static_cast<std::uint32_t>(rows_.size());
  by_opcode_[pattern.opcode].push_back(std::move(pattern));
  rows_.push_back(std::move(row));
}

Table::Pattern Table::compile(std::string_view text) {
  Pattern pattern;
  const std::size_t opcode = text.find_first_of(".[");
  pattern.opcode = text.substr(0, opcode);
  text.remove_prefix(std::min(opcode, text.size()));
  while (!text.empty()) {
    Item item{text[0] == '[', {}};
    std::size_t end;
    std::string_view choices;
    if (item.optional) {
      end = text.find(']') + 1;
      choices = text.substr(1, end - 2);
    } else if (text.substr(0, 2) == ".{") {
      end = text.find('}') + 1;
      choices = text.substr(2, end - 3);
    } else {
      end = std::min(text.find_first_of(".[", 1), text.size());
      choices = text.substr(0, end);
    }
    for (std::string_view choice : split(choices, '|')) {
      if (choice.substr(0, 1) == ".") choice.remove_prefix(1);
      if (choice.empty()) throw std::logic_error("malformed instruction pattern");
      item.choices.emplace_back(choice);
    }
    pattern.items.push_back(std::move(item));
    text.remove_prefix(end);
  }
  return pattern;
}

bool Table::match(std::span<const Item> items, std::span<const std::string_view> parts) {
  if (items.empty()) return parts.empty();
  const Item& item = items.front();
  if (!parts.empty() &&
      std::find(item.choices.begin(), item.choices.end(), parts.front()) != item.choices.end() &&
      match(items.subspan(1), parts.subspan(1))) {
    return true;
  }
  return item.optional && match(items.subspan(1), parts);
}

Form Table::match(std::string_view mnemonic) const {
  Form form;
  form.mnemonic = mnemonic;
  form.parts = split(mnemonic, '.');
  const std::string opcode(form.parts.front());
  form.parts.erase(form.parts.begin());
  const auto candidates = by_opcode_.find(opcode);
  if (candidates == by_opcode_.end()) return form;
  for (const Pattern& pattern : candidates->second) {
    if (!match(pattern.items, form.parts)) continue;
    if (form.row == nullptr) {
      form.row = &rows_[pattern.row];
      form.effects = resolve(form.row->effects, form.parts);
    } else {
      form.others.push_back(&rows_[pattern.row]);
    }
  }
  if (form.row != nullptr) return form;
  for (const Pattern& pattern : candidates->second) {
    PartList found;
    const bool fits =
        arrange(std::span<const Item>(pattern.items), form.parts, opcode_parts(mnemonic), found);
    if (!fits || !same_opcode(mnemonic, found)) continue;
    if (form.row == nullptr) {
      form.row = &rows_[pattern.row];
      form.effects = resolve(form.row->effects, found);
      form.parts = std::move(found);
    } else if (found == form.parts) {
      form.others.push_back(&rows_[pattern.row]);
    }
  }
  return form;
}

}  // namespace sglab::emu
