#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sglab::emu {

// A number that represents a sequence of values: two sequences that differ have different ones, as good as
// always.
class Digest {
 public:
  template <class T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void add(T value) {
    mix(static_cast<std::uint64_t>(value));
  }
  template <class First, class... Rest>
    requires(sizeof...(Rest) > 0)
  void add(First first, Rest... rest) {
    add(first);
    add(rest...);
  }
  void add_bytes(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const std::uint8_t*>(data);
    add(bytes);
    for (; bytes >= 8; bytes -= 8, at += 8) mix(word(at, 8));
    if (bytes != 0) mix(word(at, bytes));
  }
  std::uint64_t value() const { return state_; }

 private:
  static std::uint64_t word(const std::uint8_t* at, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    return value;
  }
  void mix(std::uint64_t value) {
    state_ = std::rotl(state_ ^ value, 29) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  }
  std::uint64_t state_ = 0x243f6a8885a308d3u;
};

}  // namespace sglab::emu
