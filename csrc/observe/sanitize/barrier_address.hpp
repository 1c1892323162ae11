#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "machine/program/program.hpp"

namespace sglab::emu {

// Which instructions arrive at what others wait for, as far as the program's text shows: a ring's address is
// a constant plus what changes from trip to trip, and the arriving warp adds the constant that the waiting
// warp adds.
class BarrierAddresses {
 public:
  explicit BarrierAddresses(const Program& program);

  enum class Fit {
    kUnknown,
    kSame,
    kOther,  // what arrives there is waited for elsewhere
  };
  Fit fit(std::uint32_t waits, std::uint32_t arrives) const;

 private:
  struct Address {
    std::int64_t constant = 0;
    std::vector<std::uint32_t> terms;  // where the rest was computed, in order
  };
  static bool has_more(const Address& a, const Address& b);
  bool waited_for(const Address& at) const;
  bool may_be_of(const Address& ring, const Address& single) const;
  std::optional<Address> address(std::uint32_t pc) const;
  Address value(Ref place, std::uint32_t before, int depth) const;
  Address operand(std::uint32_t pc, std::uint16_t field, int depth) const;
  std::int64_t constant(std::uint32_t pc, Ref ref) const;

  const Program& program_;
  std::vector<std::uint32_t> first_;                                           // by instruction: its mentions
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> definitions_;  // of a place, in order
  std::unordered_map<std::uint32_t, Address> waits_;                           // by instruction
};

}  // namespace sglab::emu
