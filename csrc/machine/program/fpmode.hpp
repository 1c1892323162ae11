#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

// The host's rounding direction and denormal handling stand in for PTX's .rn/.rz/.rm/.rp and .ftz. Changing
// them is slow and rarely needed, so a worker remembers what it has set.
namespace sglab::emu {

enum FpMode : std::uint8_t {
  kNearest = 0,
  kDown = 1,
  kUp = 2,
  kTowardZero = 3,
  kRoundMask = 3,
  kFtz = 4,
};

struct FpState {
  std::uint8_t current = kNearest;

  // Flush-to-zero only differs for f32 arithmetic; everything else passes a mode without it.
  void set(std::uint8_t mode) {
    if (mode != current) change(mode);
  }
  void change(std::uint8_t mode) {
#if defined(__x86_64__)
    std::uint32_t control = 0x1f80u | (std::uint32_t{mode} & kRoundMask) << 13;
    if (mode & kFtz) control |= 0x8040u;
    _mm_setcsr(control);
    __asm__ volatile("" ::: "memory");
#else
    constexpr int kRound[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    std::fesetround(kRound[mode & kRoundMask]);
#endif
    current = mode;
  }
};

}  // namespace sglab::emu
