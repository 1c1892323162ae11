#include "machine/front/parser.hpp"

#include <charconv>
#include <utility>

#include "machine/float/environment.hpp"

namespace sglab::emu {
namespace {

std::uint64_t location_key(std::uint64_t file, std::uint64_t line, std::uint64_t column) {
  return file << 48 ^ line << 20 ^ column;
}

}  // namespace

void Parser::parse() {
  scopes_.emplace_back();
  open_.push_back(0);
  while (scan_.peek() != '\0') {
    poll_.step();
    directive();
  }
  if (module_.version[0] == 0 || module_.target.empty())
    scan_.fail("this is not PTX: it has no .version and .target directives");
}

void Parser::directive() {
  if (scan_.peek() == '@') return scan_.skip_line();  // @@DWARF of old compilers
  Linkage linkage;
  for (;;) {
    if (scan_.peek() != '.') {
      const bool begun = module_.version[0] != 0;
      scan_.fail(begun ? "expected a directive such as .entry"
                       : "this is not PTX: it begins with no directive");
    }
    const std::string_view name = scan_.dotted();
    if (name == "visible" || name == "common") continue;
    if (name == "extern") {
      linkage.external = true;
    } else if (name == "weak") {
      linkage.weak = true;
    } else if (name == "entry" || name == "func") {
      return function(name == "entry", linkage);
    } else if (name == "version") {
      return version();
    } else if (name == "target") {
      return target();
    } else if (name == "address_size") {
      if (scan_.number().bits != 64) scan_.fail("only .address_size 64 is supported");
      return;
    } else if (name == "file") {
      return file();
    } else if (name == "section") {
      return section();
    } else if (name == "pragma") {
      return pragma();
    } else if (name == "global" || name == "const" || name == "shared") {
      const Space space = name == "global"  ? Space::kGlobal
                          : name == "const" ? Space::kConst
                                            : Space::kShared;
      return header_only_ ? pass_declaration(false) : variable(space, linkage);
    } else if (name == "loc") {
      return location();
    } else if (!header_only_) {
      scan_.fail("unknown directive ." + std::string(name));
    } else if (pass_unknown()) {
      return;
    }
  }
}

void Parser::version() {
  const std::uint32_t line = scan_.line();
  scan_.peek();
  const std::size_t start = scan_.offset();
  scan_.number();  // "9.0" scans as a decimal
  const std::string_view text = scan_.since(start);
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) throw PtxError(line, 1, "expected .version major.minor");
  std::array<unsigned, 2> read{0, 0};
  for (const auto& [part, into] :
       {std::pair(text.substr(0, point), &read[0]), std::pair(text.substr(point + 1), &read[1])}) {
    const auto [last, error] = std::from_chars(part.data(), part.data() + part.size(), *into);
    if (error != std::errc() || last != part.data() + part.size() || *into >= 100)
      throw PtxError(line, 1, "unknown PTX version " + std::string(text.substr(0, 20)));
  }
  if (read[0] == 0) throw PtxError(line, 1, "unknown PTX version " + std::string(text.substr(0, 20)));
  module_.version = read;
}

void Parser::target() {
  module_.target = std::string(scan_.word());
  while (scan_.accept(',')) scan_.word();
}

void Parser::file() {
  const std::uint32_t index = small("a file's number");
  module_.files[index] = std::string(scan_.string());
  while (scan_.accept(',')) scan_.number();  // time stamp, size
}

// Only .debug_str is read: it names inlined functions.
void Parser::section() {
  const std::string_view name = scan_.dotted();
  if (header_only_ || name != "debug_str") return scan_.skip_braces();
  scan_.expect('{');
  std::string_view label;
  while (!scan_.accept('}')) {
    if (scan_.at_word()) {
      label = scan_.word();
      scan_.expect(':');
      continue;
    }
    if (scan_.dotted() != "b8") scan_.fail("expected .b8 data in .debug_str");
    do {
      const auto value = static_cast<char>(scan_.number().bits);
      if (value != 0) module_.debug_strings[label] += value;
    } while (scan_.accept(','));
  }
}

// .loc file line column [, function_name label [+ offset], inlined_at file line column]
void Parser::location() {
  Location place;
  place.file = small("a file's number");
  place.line = small("a line");
  place.column = small("a column");
  while (scan_.accept(',')) {
    const std::string_view what = scan_.word();
    if (what == "function_name") {
      place.function_label = scan_.word();
      if (scan_.accept('+')) scan_.number();
    } else if (what == "inlined_at") {
      const std::uint64_t file = scan_.number().bits, line = scan_.number().bits,
                          column = scan_.number().bits;
      const auto found = latest_location_.find(location_key(file, line, column));
      if (found != latest_location_.end()) place.inlined_at = found->second;
    } else {
      scan_.fail("unknown .loc attribute " + std::string(what));
    }
  }
  location_ = static_cast<std::uint32_t>(module_.locations.size());
  module_.locations.push_back(place);
  latest_location_[location_key(place.file, place.line, place.column)] = location_;
}

// .pragma "nounroll", "…";
void Parser::pragma() {
  do {
    scan_.string();
  } while (scan_.accept(','));
  scan_.expect(';');
}

// A number of 32 bits.
std::uint32_t Parser::small(const char* what) {
  return static_cast<std::uint32_t>(scan_.integer(0xffffffffu, what));
}

std::string register_name(const Function& function, std::uint32_t index) {
  for (const RegisterGroup& group : function.register_groups) {
    if (index < group.first || index - group.first >= group.count) continue;
    return std::string(group.name) + (group.numbered ? std::to_string(index - group.first) : "");
  }
  return std::string("r").append(std::to_string(index));
}

Module parse_module(std::string text, std::string name, const std::function<bool()>& interrupted) {
  const PlainArithmetic plain;  // for constants
  Module module;
  module.text = std::move(text);
  module.name = std::move(name);
  Parser(module, module.text, Poll(&interrupted), false).parse();
  return module;
}

Module parse_header(std::string_view text, std::string name, const std::function<bool()>& interrupted) {
  const PlainArithmetic plain;
  Module module;
  module.name = std::move(name);
  Parser(module, text, Poll(&interrupted), true).parse();
  return module;
}

}  // namespace sglab::emu
