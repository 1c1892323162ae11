// Mutations that know PTX's grammar: statements, operands, modifiers and numbers, with libFuzzer's own now
// and then.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "words.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace sglab::guided;
using Parts = std::vector<std::string>;

std::string instruction(Random& random) {
  static const char* const kGuards[] = {"", "", "", "@%p1 ", "@!%p2 "};
  std::string text = kGuards[below(random, 5)] + mnemonic(random);
  const std::size_t count = below(random, 7);
  for (std::size_t k = 0; k < count; ++k) text += (k == 0 ? " " : ", ") + choice(random, words().words);
  return text + ";";
}

std::string line(Random& random) {
  const std::size_t kind = below(random, 10);
  if (kind < 5) return choice(random, words().statements) + "\n";
  return (kind < 8 ? choice(random, words().lines) : instruction(random)) + "\n";
}

void mutate_lines(Random& random, Parts& all) {
  const std::size_t at = below(random, all.size() + 1);
  const auto here = all.begin() + static_cast<std::ptrdiff_t>(at);
  const std::size_t kind = below(random, 8);
  if (kind < 4 || all.empty()) {
    all.insert(here, line(random));
  } else if (kind == 4 && at < all.size()) {
    const std::size_t count = std::min<std::size_t>(1 + below(random, 5), all.size() - at);
    all.erase(here, here + static_cast<std::ptrdiff_t>(count));
  } else if (kind == 5) {
    all.insert(here, std::string(choice(random, all)));
  } else if (kind == 6 && at < all.size()) {
    all[at] = line(random);
  } else if (at < all.size()) {
    std::swap(all[at], all[below(random, all.size())]);
  }
}

// A modifier left out, doubled, moved or taken from another word.
void mutate_modifiers(Random& random, std::string& word, const Parts& all) {
  Parts parts;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = std::min(word.find('.', at + 1), word.size());
    parts.push_back(word.substr(at, end - at));
    at = end;
  }
  if (parts.empty()) return;
  const std::size_t at = below(random, parts.size());
  const auto here = parts.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(random, 4)) {
    case 0:
      parts.erase(here);
      break;
    case 1:
      parts.insert(here, std::string(choice(random, parts)));
      break;
    case 2:
      std::swap(parts[at], parts[below(random, parts.size())]);
      break;
    default: {
      const std::string& other = choice(random, all);
      const std::size_t dot = other.rfind('.');
      if (dot != std::string::npos) parts[at] = other.substr(dot);
    }
  }
  word = joined(parts);
}

void mutate_tokens(Random& random, Parts& all) {
  if (all.empty()) return;
  const std::size_t at = below(random, all.size());
  const auto here = all.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(random, 9)) {
    case 0:
      all.erase(here);
      break;
    case 1:
      all.insert(here, std::string(choice(random, all)));
      break;
    case 2:
      all[at] = std::string(choice(random, all));
      break;
    case 3:
    case 4:
      all[at] = choice(random, words().words);
      break;
    case 5:
      all[at].resize(below(random, all[at].size() + 1));
      break;
    case 6: {  // the next number becomes another one
      const auto number =
          std::find_if(here, all.end(), [](const std::string& t) { return t[0] >= '0' && t[0] <= '9'; });
      if (number != all.end())
        *number = below(random, 2) == 0 ? choice(random, words().words) : std::to_string(below(random, 300));
      break;
    }
    case 7: {  // the next word with modifiers
      const auto word =
          std::find_if(here, all.end(), [](const std::string& t) { return t.find('.') != t.npos; });
      if (word != all.end()) mutate_modifiers(random, *word, all);
      break;
    }
    default:
      all.resize(at);
  }
}

std::size_t stored(const std::string& text, std::uint8_t* data, std::size_t max_size) {
  const std::size_t size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  Random random(seed);
  if (below(random, 10) == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(reinterpret_cast<const char*>(data), size);
  for (std::size_t left = std::size_t{1} << below(random, 4); left > 0; --left) {
    const bool by_line = below(random, 3) == 0;
    Parts parts = by_line ? lines(text) : tokens(text);
    if (by_line) {
      mutate_lines(random, parts);
    } else {
      mutate_tokens(random, parts);
    }
    text = joined(parts);
  }
  return stored(text, data, max_size);
}

// Some lines of the second text between those of the first.
extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second, std::size_t second_size,
                                                 std::uint8_t* out, std::size_t max_size, unsigned seed) {
  Random random(seed);
  Parts into = lines({reinterpret_cast<const char*>(first), first_size});
  const Parts from = lines({reinterpret_cast<const char*>(second), second_size});
  const std::size_t begin = below(random, from.size());
  const std::size_t count = std::min<std::size_t>(1 + below(random, 12), from.size() - begin);
  into.insert(into.begin() + static_cast<std::ptrdiff_t>(below(random, into.size() + 1)),
              from.begin() + static_cast<std::ptrdiff_t>(begin),
              from.begin() + static_cast<std::ptrdiff_t>(begin + count));
  return stored(joined(into), out, max_size);
}
