#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "machine/front/error.hpp"

namespace sglab::emu {

// A number as PTX writes it.
struct Number {
  enum class Kind : std::uint8_t { kInteger, kFloat32, kFloat64 } kind;
  std::uint64_t bits;
};

// Walks PTX text. Every call first skips blanks and comments.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // The next character, 0 at the end.
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  // The character right after the last thing read, blanks included.
  char adjacent(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool accept(char c);
  void expect(char c);
  bool at_word();

  std::string_view word();       // identifier; throws if there is none
  std::string_view dotted();     // ".name", without its dot; "shared::cta" counts as one name
  std::string_view opcode();     // "ld.global.v4.f32": the whole run
  std::string_view component();  // ".x" if it is adjacent, with its dot; else empty
  std::string_view string();     // "…", without quotes
  Number number();
  // A number without a point that is at most `most`; `what` names it.
  std::uint64_t integer(std::uint64_t most, const char* what);
  bool at_number();
  void skip_line();    // to the end of the line
  void skip_braces();  // over a balanced { … }

  std::size_t offset() const { return at_; }
  std::size_t size() const { return text_.size(); }
  std::string_view since(std::size_t start) const { return text_.substr(start, at_ - start); }
  std::uint32_t line() const { return line_; }
  [[noreturn]] void fail(const std::string& message) const;

 private:
  void skip();

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace sglab::emu
