#include "observe/record/coalescing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace sglab::emu {
namespace {

constexpr std::size_t kLanes = 32;
constexpr std::uint32_t kBanks = 32, kWord = 4;

std::uint64_t address_of(const LaneAccess& access, std::uint32_t rest) {
  return access.address[std::countr_zero(rest) & 31];
}

// Of one part of the warp. Each lane asks for `words` words that follow each other.
std::uint32_t wavefronts_of(const LaneAccess& access, std::uint32_t lanes, std::uint32_t words, bool turns) {
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

Layout layout_of(const LaneAccess& access, std::uint32_t bytes) {
  const std::uint64_t first = address_of(access, access.lanes);
  std::uint32_t rest = access.lanes & (access.lanes - 1);
  const std::uint64_t step = rest == 0 ? 0 : address_of(access, rest) - first;
  if (step != 0 && step != bytes) return Layout::kOther;
  std::uint64_t wanted = first + step;
  for (; rest != 0; rest &= rest - 1, wanted += step) {
    if (address_of(access, rest) != wanted) return Layout::kOther;
  }
  return step == 0 ? Layout::kSame : Layout::kRow;
}

std::uint8_t pieces(const LaneAccess& access, Layout layout, std::uint64_t span, std::uint32_t bytes,
                    std::uint64_t size, std::uint64_t shift) {
  if (layout != Layout::kOther) {
    const std::uint64_t first = address_of(access, access.lanes) - shift;
    return static_cast<std::uint8_t>((first + span - 1) / size - first / size + 1);
  }
  std::array<std::uint64_t, 2 * kLanes> all;
  std::size_t count = 0;
  std::uint64_t last = ~std::uint64_t{0};
  for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const std::uint64_t address = address_of(access, rest) - shift;
    const std::uint64_t first = address / size, end = (address + bytes - 1) / size;
    if (first != last) all[count++] = first;
    if (end != first) all[count++] = end;
    last = end;
  }
  auto* const end = all.data() + count;
  if (!std::is_sorted(all.data(), end)) std::sort(all.data(), end);
  return static_cast<std::uint8_t>(std::unique(all.data(), end) - all.data());
}

std::uint8_t wavefronts(const LaneAccess& access, Layout layout, const AccessForm& form) {
  const std::uint32_t words = (form.bytes + kWord - 1) / kWord;
  const std::uint32_t parts = std::clamp<std::uint32_t>(words, 1, 4), width = 32 / parts;
  const bool turns = form.takes_turns();
  std::uint32_t sum = 0;
  // Where no bank is asked for two words before all are asked for one.
  const bool same = layout == Layout::kSame && !turns,
             row = layout == Layout::kRow && form.bytes % kWord == 0;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::uint32_t mask = (width == 32 ? ~0u : (1u << width) - 1) << part * width;
    const std::uint32_t lanes = access.lanes & mask;
    if (same || row) {
      const auto askers = static_cast<std::uint32_t>(std::popcount(lanes));
      const std::uint32_t asked = words * (row ? askers : std::min(askers, 1u));
      sum += (asked + kBanks - 1) / kBanks;
    } else {
      sum += wavefronts_of(access, lanes, words, turns);
    }
  }
  return static_cast<std::uint8_t>(std::max<std::uint32_t>(sum, 1));
}

}  // namespace sglab::emu
