#include "isa/table.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "machine/front/types.hpp"

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
  if (const std::size_t at = row.pattern.find('$'); at != std::string::npos)
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
  return form;
}

}  // namespace sglab::emu
