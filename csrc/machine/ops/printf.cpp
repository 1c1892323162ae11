#include "machine/ops/printf.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/memory/access.hpp"

namespace sglab::emu {
namespace {

constexpr std::size_t kLongest = 1 << 16;  // bytes of a format, a string, or what one directive fills

template <class T>
T fetch(Warp& w, const Inst* i, int lane, std::uint64_t& at) {
  at = (at + sizeof(T) - 1) / sizeof(T) * sizeof(T);
  std::uint64_t addresses[32] = {};
  addresses[lane] = at;
  Places places;
  generic_places(w, i, addresses, 1u << lane, sizeof(T), 1, places);
  T value;
  std::memcpy(&value, places.at[lane], sizeof value);
  at += sizeof(T);
  return value;
}

// %-8.3lld and the like, taken apart.
struct Directive {
  std::string flags;
  std::size_t width = 0;
  std::optional<std::size_t> precision;
  int longs = 0, shorts = 0;
  char kind = '%';

  // What a C library prints with the same directive and a value of the type that `length` and `as` name.
  std::string text(const char* length, char as) const {
    std::string all = "%" + flags;
    if (width != 0) all += std::to_string(width);
    if (precision) all += "." + std::to_string(*precision);
    return all + length + as;
  }
};

template <class T>
void append(std::string& out, const std::string& directive, T value) {
  const int length = std::snprintf(nullptr, 0, directive.c_str(), value);
  if (length <= 0) return;
  const std::size_t before = out.size(), bytes = static_cast<std::size_t>(length);
  out.resize(before + bytes + 1);
  std::snprintf(out.data() + before, bytes + 1, directive.c_str(), value);
  out.resize(before + bytes);
}

// The arguments of one lane's call.
class Arguments {
 public:
  Arguments(Warp& w, const Inst* i, int lane, std::uint64_t at) : w_(w), i_(i), lane_(lane), at_(at) {}
  template <class T>
  T next() {
    return fetch<T>(w_, i_, lane_, at_);
  }
  std::string string() { return read_string(w_, i_, lane_, next<std::uint64_t>()); }

 private:
  Warp& w_;
  const Inst* i_;
  int lane_;
  std::uint64_t at_;
};

// A width or a precision, from `format[at]` on; cut to what a directive may fill.
std::size_t number(const std::string& format, std::size_t& at) {
  std::size_t value = 0;
  for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at)
    value = std::min<std::size_t>(kLongest, value * 10 + static_cast<std::size_t>(format[at] - '0'));
  return value;
}

// Reads what follows a '%' at format[at - 1].
Directive directive_at(const std::string& format, std::size_t& at, Arguments& arguments) {
  Directive d;
  const auto here = [&](std::string_view any) {
    return at < format.size() && any.find(format[at]) != std::string_view::npos;
  };
  for (; here("-+ #0"); ++at) {
    if (d.flags.find(format[at]) == std::string::npos) d.flags += format[at];
  }
  if (here("*")) {
    ++at;
    const std::int64_t width = arguments.next<std::int32_t>();
    if (width < 0 && d.flags.find('-') == std::string::npos) d.flags += '-';
    d.width = std::min(kLongest, static_cast<std::size_t>(width < 0 ? -width : width));
  } else {
    d.width = number(format, at);
  }
  if (here(".")) {
    ++at;
    if (here("*")) {
      ++at;
      const std::int64_t precision = arguments.next<std::int32_t>();
      if (precision >= 0) d.precision = std::min(kLongest, static_cast<std::size_t>(precision));
    } else {
      d.precision = number(format, at);
    }
  }
  for (; here("lhzjt"); ++at) ++(format[at] == 'h' ? d.shorts : d.longs);
  if (at < format.size()) d.kind = format[at++];
  return d;
}

void append_string(std::string& out, const Directive& d, std::string text) {
  if (d.precision && text.size() > *d.precision) text.resize(*d.precision);
  const std::string blanks(d.width > text.size() ? d.width - text.size() : 0, ' ');
  const bool left = d.flags.find('-') != std::string::npos;
  out += left ? text + blanks : blanks + text;
}

template <class Wide, class Whole, class Half, class Byte>
void append_integer(std::string& out, const Directive& d, Arguments& arguments) {
  if (d.longs > 0)
    return append(out, d.text("ll", d.kind), static_cast<Wide>(arguments.next<std::int64_t>()));
  const auto value = static_cast<Whole>(arguments.next<std::int32_t>());
  if (d.shorts == 1) return append(out, d.text("", d.kind), static_cast<Whole>(static_cast<Half>(value)));
  if (d.shorts > 1) return append(out, d.text("", d.kind), static_cast<Whole>(static_cast<Byte>(value)));
  append(out, d.text("", d.kind), value);
}

void append_argument(std::string& out, const Directive& d, Arguments& arguments) {
  switch (d.kind) {
    case 'd':
    case 'i':
      return append_integer<long long, int, std::int16_t, std::int8_t>(out, d, arguments);
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return append_integer<unsigned long long, unsigned, std::uint16_t, std::uint8_t>(out, d, arguments);
    case 'c':
      return append_string(out, d, std::string(1, static_cast<char>(arguments.next<std::int32_t>())));
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return append(out, d.text("", d.kind), arguments.next<double>());
    case 's':
      return append_string(out, d, arguments.string());
    case 'p': {
      std::string text = "0x";
      append(text, "%llx", static_cast<unsigned long long>(arguments.next<std::uint64_t>()));
      return append_string(out, d, std::move(text));
    }
    default:
      out += d.kind;
  }
}

}  // namespace

// What lies in global memory, as formats do, is found at once.
std::string read_string(Warp& w, const Inst* i, int lane, std::uint64_t address) {
  std::string text;
  if (const Allocation* const held = w.launch->find(address)) {
    const auto* const bytes = reinterpret_cast<const char*>(address);
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(held->end - address, kLongest));
    const void* const end = std::memchr(bytes, '\0', most);
    text.assign(bytes,
                end == nullptr ? most : static_cast<std::size_t>(static_cast<const char*>(end) - bytes));
    if (end != nullptr) return text;
    address += most;
  }
  while (text.size() < kLongest) {
    const char c = fetch<char>(w, i, lane, address);
    if (c == '\0') break;
    text += c;
  }
  return text;
}

void print(Warp& w, const Inst* i, int lane, std::uint64_t format_address, std::uint64_t at) {
  const std::string format = read_string(w, i, lane, format_address);
  Arguments arguments(w, i, lane, at);
  std::string out;
  for (std::size_t k = 0; k < format.size() && out.size() < PrintRing::kBytes;) {
    const std::size_t next = std::min(format.find('%', k), format.size());
    out.append(format, k, next - k);
    k = next + 1;
    if (next < format.size()) append_argument(out, directive_at(format, k, arguments), arguments);
  }
  charge(w, format.size() + out.size());
  const std::lock_guard lock(w.launch->mutex);
  w.launch->output.append(out);
}

}  // namespace sglab::emu
