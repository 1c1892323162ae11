#pragma once

#include <cstdint>

namespace sglab::emu {

enum class Shuffle : std::uint8_t { kUp, kDown, kBfly, kIdx };

struct ShuffleSource {
  int lane;
  bool inside;  // the segment; otherwise it is the lane itself
};

// Where lane `l` takes its value from: segments and clamping as PTX defines them for shfl.sync's b and c.
inline ShuffleSource shuffle_source(Shuffle mode, int l, std::uint32_t b, std::uint32_t c) {
  const int step = static_cast<int>(b & 0x1f), clamp = static_cast<int>(c & 0x1f);
  const int segment = static_cast<int>(c >> 8 & 0x1f);
  const int most = (l & segment) | (clamp & ~segment), least = l & segment;
  int j;
  bool inside;
  switch (mode) {
    case Shuffle::kUp:
      j = l - step;
      inside = j >= most;
      break;
    case Shuffle::kDown:
      j = l + step;
      inside = j <= most;
      break;
    case Shuffle::kBfly:
      j = l ^ step;
      inside = j <= most;
      break;
    case Shuffle::kIdx:
    default:
      j = least | (step & ~segment);
      inside = j <= most;
      break;
  }
  return {(inside ? j : l) & 31, inside};
}

}  // namespace sglab::emu
