#include "words.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "isa/table.hpp"

namespace sglab::guided {
namespace {

std::vector<std::string> read(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) all.push_back(line);
  if (all.empty()) {
    std::fprintf(stderr, "no words in %s: start this through python -m sglab_fuzz front --guided\n",
                 path.c_str());
    std::exit(1);
  }
  return all;
}

Words loaded() {
  const char* folder = std::getenv("SGLAB_GUIDED_WORDS");
  const std::string at = std::string(folder == nullptr ? "." : folder) + "/";
  return {read(at + "statements.txt"), read(at + "lines.txt"), read(at + "words.txt")};
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         c == '%' || c == '.' || c == ':';
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

}  // namespace

const Words& words() {
  static const Words all = loaded();
  return all;
}

// `[.a|.b]` is one of them or none, `.{a|b}` one of them.
std::string mnemonic(Random& random) {
  const std::string& pattern = choice(random, emu::instruction_table().rows()).pattern;
  std::string made;
  for (std::size_t at = 0; at < pattern.size();) {
    const char open = pattern[at];
    if (open != '[' && open != '{') {
      made += pattern[at++];
      continue;
    }
    const std::size_t end = pattern.find(open == '[' ? ']' : '}', at);
    const std::string_view inside = std::string_view(pattern).substr(at + 1, end - at - 1);
    std::vector<std::string_view> choices;
    for (std::size_t from = 0; from <= inside.size();) {
      const std::size_t to = std::min(inside.find('|', from), inside.size());
      choices.push_back(inside.substr(from, to - from));
      from = to + 1;
    }
    if (open == '{' || below(random, 2) == 0) made += choice(random, choices);
    at = end + 1;
  }
  return made;
}

std::vector<std::string> tokens(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (is_word(text[at])) {
      while (end < text.size() && is_word(text[end])) ++end;
    } else if (is_space(text[at])) {
      while (end < text.size() && is_space(text[end])) ++end;
    }
    parts.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    parts.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

}  // namespace sglab::guided
