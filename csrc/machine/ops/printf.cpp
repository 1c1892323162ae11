#include "machine/ops/printf.hpp"

#include <cstdio>
#include <cstring>

#include "isa/aperture.hpp"
#include "machine/engine/launch.hpp"
#include "machine/memory/access.hpp"

namespace sglab::emu {
namespace {

constexpr std::size_t kLongest = 1 << 16;

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

template <class T>
void append(std::string& out, const std::string& directive, T value) {
  char text[512];
  std::snprintf(text, sizeof text, directive.c_str(), value);
  out += text;
}

}  // namespace

std::string read_string(Warp& w, const Inst* i, int lane, std::uint64_t address) {
  std::string text;
  while (text.size() < kLongest) {
    const char c = fetch<char>(w, i, lane, address);
    if (c == '\0') break;
    text += c;
  }
  return text;
}

void print(Warp& w, const Inst* i, int lane, std::uint64_t format_address, std::uint64_t at) {
  const std::string format = read_string(w, i, lane, format_address);
  std::string out;
  for (std::size_t k = 0; k < format.size(); ++k) {
    if (format[k] != '%') {
      out += format[k];
      continue;
    }
    std::string directive = "%";
    std::size_t end = k + 1;
    int longs = 0;
    for (; end < format.size() && std::strchr("-+ #0123456789.*lhzjt", format[end]) != nullptr; ++end) {
      if (format[end] == '*') {
        directive += std::to_string(fetch<std::int32_t>(w, i, lane, at));
      } else if (std::strchr("lhzjt", format[end]) != nullptr) {
        longs += format[end] != 'h';
      } else {
        directive += format[end];
      }
    }
    const char kind = end < format.size() ? format[end] : '%';
    k = end;
    switch (kind) {
      case 'd':
      case 'i':
        if (longs > 0)
          append(out, directive + "lld", static_cast<long long>(fetch<std::int64_t>(w, i, lane, at)));
        else
          append(out, directive + "d", fetch<std::int32_t>(w, i, lane, at));
        break;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        if (longs > 0)
          append(out, directive + "ll" + kind,
                 static_cast<unsigned long long>(fetch<std::uint64_t>(w, i, lane, at)));
        else
          append(out, directive + kind, fetch<std::uint32_t>(w, i, lane, at));
        break;
      case 'c':
        append(out, directive + "c", fetch<std::int32_t>(w, i, lane, at));
        break;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        append(out, directive + kind, fetch<double>(w, i, lane, at));
        break;
      case 's':
        out += read_string(w, i, lane, fetch<std::uint64_t>(w, i, lane, at));
        break;
      case 'p':
        out += "0x";
        append(out, "%llx", static_cast<unsigned long long>(fetch<std::uint64_t>(w, i, lane, at)));
        break;
      default:
        out += kind;
        break;
    }
  }
  const std::lock_guard lock(w.launch->mutex);
  w.launch->output += out;
}

}  // namespace sglab::emu
