#include "observe/record/coalescing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace sglab::emu {
namespace {

constexpr std::size_t kLanes = 32, kBanks = 32;
constexpr std::uint32_t kWord = 4;

std::uint64_t address_of(const LaneAccess& access, std::uint32_t rest) {
  return access.address[std::countr_zero(rest)];
}

// Whether lanes ask for the same words, or for words that follow each other: no bank has two of them then.
bool in_a_row(const LaneAccess& access, std::uint32_t lanes, std::uint32_t words, bool turns) {
  const std::uint64_t first = address_of(access, lanes), bytes = std::uint64_t{words} * kWord;
  const std::uint32_t others = lanes & (lanes - 1);
  const std::uint64_t step = others == 0 ? bytes : address_of(access, others) - first;
  if (first % kWord != 0 || (step != bytes && (step != 0 || turns))) return false;
  std::uint64_t expected = first + step;
  for (std::uint32_t rest = others; rest != 0; rest &= rest - 1, expected += step)
    if (address_of(access, rest) != expected) return false;
  return static_cast<std::uint32_t>(std::popcount(lanes)) * words <= kBanks;
}

// Of one part of the warp. Each lane asks for `words` words that follow each other.
std::uint32_t wavefronts_of(const LaneAccess& access, std::uint32_t lanes, std::uint32_t words, bool turns) {
  if (lanes == 0) return 0;
  if (in_a_row(access, lanes, words, turns)) return 1;
  std::array<std::uint64_t, kLanes> seen[kBanks];
  std::array<std::uint8_t, kBanks> counts{};
  std::uint32_t most = 0;
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    for (std::uint32_t k = 0; k < words; ++k) {
      const std::uint64_t word = address_of(access, rest) / kWord + k;
      const std::size_t bank = word % kBanks;
      const auto end = seen[bank].begin() + counts[bank];
      if (!turns && std::find(seen[bank].begin(), end, word) != end) continue;
      seen[bank][counts[bank]++] = word;
      most = std::max<std::uint32_t>(most, counts[bank]);
    }
  }
  return most;
}

}  // namespace

std::uint8_t pieces(const LaneAccess& access, std::uint32_t bytes, std::uint64_t size, std::uint64_t shift) {
  std::array<std::uint64_t, 2 * kLanes> all;
  std::size_t count = 0;
  std::uint64_t last = ~std::uint64_t{0};
  bool ascending = true;
  for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const std::uint64_t address = address_of(access, rest) - shift;
    const std::uint64_t first = address / size, end = (address + bytes - 1) / size;
    ascending = ascending && (count == 0 || first >= last);
    if (first != last) all[count++] = first;
    if (end != first) all[count++] = end;
    last = end;
  }
  if (!ascending) {
    std::sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    count = static_cast<std::size_t>(
        std::unique(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)) - all.begin());
  }
  return static_cast<std::uint8_t>(count);
}

std::uint8_t wavefronts(const LaneAccess& access, const AccessForm& form) {
  const std::uint32_t words = (form.bytes + kWord - 1) / kWord;
  const std::uint32_t parts = std::clamp<std::uint32_t>(words, 1, 4), width = 32 / parts;
  const bool turns = form.reads && form.writes && !form.counts;
  std::uint32_t sum = 0;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::uint32_t mask = (width == 32 ? ~0u : (1u << width) - 1) << part * width;
    sum += wavefronts_of(access, access.lanes & mask, words, turns);
  }
  return static_cast<std::uint8_t>(std::max<std::uint32_t>(sum, 1));
}

}  // namespace sglab::emu
