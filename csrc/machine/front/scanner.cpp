#include "machine/front/scanner.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

namespace sglab::emu {
namespace {

enum CharClass : std::uint8_t { kWordStart = 1, kWord = 2, kDigit = 4, kBlank = 8, kHex = 16, kMark = 32 };

constexpr std::array<std::uint8_t, 256> kClasses = [] {
  std::array<std::uint8_t, 256> table{};
  for (int c = 'a'; c <= 'z'; ++c) table[c] = table[c - 32] = kWordStart | kWord;
  for (const char c : {'_', '$', '%'}) table[static_cast<unsigned char>(c)] = kWordStart | kWord;
  for (int c = '0'; c <= '9'; ++c) table[c] = kWord | kDigit | kHex;
  for (int c = 'a'; c <= 'f'; ++c) table[c] |= kHex, table[c - 32] |= kHex;
  for (const char c : {' ', '\t', '\r', '\n', '\f', '\v'}) table[static_cast<unsigned char>(c)] = kBlank;
  for (const char c : {'{', '}', '"', '/', '\0'}) table[static_cast<unsigned char>(c)] |= kMark;
  return table;
}();

bool is(char c, std::uint8_t mask) {
  return kClasses[static_cast<unsigned char>(c)] & mask;
}

std::string shown(char c) {
  if (c == '\0') return "the end of the text";
  if (c == '\n') return "the end of the line";
  if (c > ' ' && c <= '~') return std::string("'") + c + "'";
  constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return std::string("a byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

}  // namespace

void Scanner::fail(const std::string& message) const {
  throw PtxError(line_, static_cast<std::uint32_t>(at_ - line_start_ + 1), message);
}

void Scanner::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = ++at_;
    } else if (is(c, kBlank)) {
      ++at_;
    } else if (c == '/' && adjacent(1) == '/') {
      const std::size_t end = text_.find('\n', at_);
      at_ = end == std::string_view::npos ? text_.size() : end;
    } else if (c == '/' && adjacent(1) == '*') {
      const std::size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) fail("this comment never ends");
      for (; at_ < end + 2; ++at_) {
        if (text_[at_] == '\n') ++line_, line_start_ = at_ + 1;
      }
    } else if (c == '\0') {  // as a C string ends; nothing may follow
      if (text_.find_first_not_of('\0', at_) != std::string_view::npos) fail("the text holds a byte 0x00");
      at_ = text_.size();
    } else {
      return;
    }
  }
}

bool Scanner::accept(char c) {
  if (peek() != c) return false;
  ++at_;
  return true;
}

void Scanner::expect(char c) {
  if (!accept(c)) fail(std::string("expected '") + c + "', found " + shown(peek()));
}

bool Scanner::at_word() {
  return is(peek(), kWordStart);
}

std::string_view Scanner::word() {
  if (!at_word()) fail("expected a name, found " + shown(peek()));
  const std::size_t start = at_;
  while (is(adjacent(), kWord)) ++at_;
  return since(start);
}

std::string_view Scanner::dotted() {
  expect('.');
  const std::size_t start = at_;
  while (is(adjacent(), kWord) || (adjacent() == ':' && adjacent(1) == ':')) at_ += adjacent() == ':' ? 2 : 1;
  if (at_ == start) fail("expected a name after '.'");
  return since(start);
}

std::string_view Scanner::opcode() {
  if (!at_word()) fail("expected an instruction, found " + shown(peek()));
  const std::size_t start = at_;
  while (is(adjacent(), kWord) || adjacent() == '.' || (adjacent() == ':' && adjacent(1) == ':')) {
    at_ += adjacent() == ':' ? 2 : 1;
  }
  return since(start);
}

std::string_view Scanner::component() {
  if (adjacent() != '.' || is(adjacent(2), kWord)) return {};
  if (std::string_view("xyzwrgba").find(adjacent(1)) == std::string_view::npos) return {};
  at_ += 2;
  return text_.substr(at_ - 2, 2);
}

std::string_view Scanner::string() {
  expect('"');
  const std::size_t start = at_;
  while (adjacent() != '"') {
    if (adjacent() == '\0' || adjacent() == '\n') fail("this string never ends");
    at_ += adjacent() == '\\' && adjacent(1) != '\0' ? 2 : 1;
  }
  ++at_;
  return text_.substr(start, at_ - start - 1);
}

bool Scanner::at_number() {
  return is(peek(), kDigit);
}

Number Scanner::number() {
  if (!at_number()) fail("expected a number, found " + shown(peek()));
  const char* const end = text_.data() + text_.size();
  const auto hexadecimal = [&](std::size_t prefix, int base) {
    std::uint64_t value = 0;
    const char* const first = text_.data() + at_ + prefix;
    const auto [last, error] = std::from_chars(first, end, value, base);
    if (error != std::errc() || last == first) fail("this number is malformed or does not fit 64 bits");
    at_ = static_cast<std::size_t>(last - text_.data());
    return value;
  };
  Number result{Number::Kind::kInteger, 0};
  const char second = adjacent(1);
  if (adjacent() == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    const bool single = second == 'f' || second == 'F';
    const std::size_t start = at_;
    result = {single ? Number::Kind::kFloat32 : Number::Kind::kFloat64, hexadecimal(2, 16)};
    if (at_ - start != (single ? 10u : 18u)) fail("a 0f literal has 8 hexadecimal digits, a 0d literal 16");
  } else if (adjacent() == '0' && (second == 'x' || second == 'X')) {
    result.bits = hexadecimal(2, 16);
  } else if (adjacent() == '0' && (second == 'b' || second == 'B')) {
    result.bits = hexadecimal(2, 2);
  } else {
    std::size_t digits = 0;
    while (is(adjacent(digits), kDigit)) ++digits;
    const char after = adjacent(digits);
    if (after == '.' || after == 'e' || after == 'E') {
      double value = 0;
      const auto [last, error] = std::from_chars(text_.data() + at_, end, value);
      if (error != std::errc()) fail("this number is malformed");
      at_ = static_cast<std::size_t>(last - text_.data());
      result = {Number::Kind::kFloat64, std::bit_cast<std::uint64_t>(value)};
    } else {
      result.bits = adjacent() == '0' && digits > 1 ? hexadecimal(1, 8) : hexadecimal(0, 10);
    }
  }
  if (adjacent() == 'U' || adjacent() == 'u') ++at_;
  if (is(adjacent(), kWord)) fail("this number is malformed");
  return result;
}

std::uint64_t Scanner::integer(std::uint64_t most, const char* what) {
  const Number value = number();
  if (value.kind != Number::Kind::kInteger) fail(std::string(what) + " must be an integer");
  if (value.bits > most) {
    fail(std::string(what) + " must be at most " + std::to_string(most) + ", not " +
         std::to_string(value.bits));
  }
  return value.bits;
}

void Scanner::skip_line() {
  while (at_ < text_.size() && text_[at_] != '\n') ++at_;
}

// Most of a text lies in braces: it looks at no more than it must, and counts lines at the end.
void Scanner::skip_braces() {
  expect('{');
  std::size_t counted = at_;
  const auto count_lines = [&] {
    const std::string_view passed = text_.substr(counted, at_ - counted);
    line_ += static_cast<std::uint32_t>(std::count(passed.begin(), passed.end(), '\n'));
    if (const std::size_t last = passed.rfind('\n'); last != std::string_view::npos)
      line_start_ = counted + last + 1;
    counted = at_;
  };
  for (std::size_t depth = 1; depth > 0;) {
    while (at_ < text_.size() && !is(text_[at_], kMark)) ++at_;
    const char mark = adjacent();
    if (mark == '{' || mark == '}') {
      depth += mark == '{' ? 1 : -1;
      ++at_;
      continue;
    }
    if (mark == '/' && adjacent(1) != '/' && adjacent(1) != '*') {
      ++at_;
      continue;
    }
    count_lines();
    if (mark == '"') {
      string();
    } else if (peek() == '\0') {
      fail("this '{' is never closed");
    }
    counted = at_;
  }
  count_lines();
}

}  // namespace sglab::emu
