#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sglab::guided {

using Random = std::mt19937;

inline std::size_t below(Random& random, std::size_t count) {
  return count == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

template <class T>
const T& choice(Random& random, const std::vector<T>& all) {
  return all[below(random, all.size())];
}

// What PTX is made of: lists that sglab_fuzz writes from the instruction table and its generator into the
// folder that SGLAB_GUIDED_WORDS names.
struct Words {
  std::vector<std::string> statements;  // that the decoder takes, a line each
  std::vector<std::string> lines;       // of shipped PTX, declarations and directives
  std::vector<std::string> words;       // operands, numbers, types, punctuation
};
const Words& words();

// A mnemonic that a row of the instruction table takes.
std::string mnemonic(Random& random);

// Words, runs of white space, and single other characters, in order: together the text.
std::vector<std::string> tokens(std::string_view text);
std::vector<std::string> lines(std::string_view text);
std::string joined(const std::vector<std::string>& parts);

}  // namespace sglab::guided
