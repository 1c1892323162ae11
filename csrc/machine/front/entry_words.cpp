#include "machine/front/entry_words.hpp"

#include <algorithm>
#include <utility>

#include "machine/float/environment.hpp"
#include "machine/front/parser.hpp"

namespace sglab::emu {
namespace {

constexpr std::size_t kMostOperands = 0xffff;  // as in a statement that the machine decodes

// Walks a body whose braces, strings and comments are known to be closed.
class Words {
 public:
  Words(std::string_view body, Poll poll) : scan_(body), poll_(poll) {}

  std::vector<WordsStatement> statements() {
    std::vector<WordsStatement> all;
    for (char next = scan_.peek(); next != '\0'; next = scan_.peek()) {
      poll_.step();
      if (next == '.') {
        directive();
      } else if (next == '@') {
        guard();
      } else if (!scan_.at_word()) {
        pass(next);
      } else if (const std::string_view word = scan_.opcode(); !scan_.accept(':')) {
        all.push_back({word, operands()});
      }
    }
    return all;
  }

 private:
  void pass(char next) {
    if (next == '"') {
      scan_.string();
    } else {
      scan_.expect(next);
    }
  }

  // .loc ends with its last attribute; others, such as .reg, with a semicolon.
  void directive() {
    scan_.expect('.');
    if (scan_.at_word() && scan_.word() == "loc") return location();
    for (char next = scan_.peek(); next != ';' && next != '\0'; next = scan_.peek()) {
      poll_.step();
      pass(next);
    }
  }

  // As the parser's own.
  void location() {
    const auto numbers = [&] {
      while (scan_.at_number()) scan_.number();
    };
    numbers();
    while (scan_.accept(',')) {
      if (scan_.word() == "function_name") {
        scan_.word();
        scan_.accept('+');
      }
      numbers();
    }
  }

  void guard() {
    scan_.expect('@');
    scan_.accept('!');
    if (scan_.at_word()) scan_.word();
  }

  // Up to the statement's semicolon. A bracket or a brace that is never closed ends where the next one opens.
  std::vector<WordsOperand> operands() {
    std::vector<WordsOperand> all;
    bool begun = false;
    char open = '\0';
    const auto begin = [&](bool address) {
      if (all.size() == kMostOperands) scan_.fail("too many operands");
      all.push_back({address, {}});
      begun = true;
    };
    for (char next = scan_.peek(); next != ';' && next != '\0'; next = scan_.peek()) {
      poll_.step();
      const bool opens = next == '[' || (next == '{' && open != '[');
      if (opens) begin(next == '['), open = next;
      if (next == (open == '[' ? ']' : '}') || (next == ',' && open == '\0')) {
        begun = false, open = '\0';
      } else if (!opens && next != ',' && !begun) {
        begin(false);
      }
      if (scan_.at_word()) {
        all.back().names.push_back(scan_.word());
      } else {
        pass(next);
      }
    }
    return all;
  }

  Scanner scan_;
  Poll poll_;
};

}  // namespace

void Parser::pass_body() {
  scan_.peek();
  const std::size_t start = scan_.offset();
  scan_.skip_braces();
  const std::string_view braced = scan_.since(start);
  passed_bodies_.emplace_back(current().name, braced.substr(1, braced.size() - 2));
}

std::string_view Parser::passed_body(std::string_view entry) const {
  const auto found =
      std::ranges::find(passed_bodies_, entry, &std::pair<std::string_view, std::string_view>::first);
  return found != passed_bodies_.end() ? found->second : std::string_view();
}

std::vector<WordsStatement> entry_words(std::string_view text, std::string_view entry,
                                        const std::function<bool()>& interrupted) {
  const PlainArithmetic plain;
  Module module;
  Parser header(module, text, Poll(&interrupted), true);
  header.parse();
  return Words(header.passed_body(entry), Poll(&interrupted)).statements();
}

}  // namespace sglab::emu
