#include "cpu/features.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace sglab::cpu {

#if defined(__x86_64__)
namespace {

// cpuid and xgetbv by hand: __builtin_cpu_supports needs a runtime symbol that zig's clang lacks.
std::uint64_t enabled_state() {
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

bool bit(std::uint32_t word, int index) {
  return (word >> index) & 1u;
}

}  // namespace
#endif

Isa best_isa() {
#if defined(__x86_64__)
  std::uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return Isa::kBaseline;
  const bool osxsave = bit(c, 27), fma = bit(c, 12), f16c = bit(c, 29);
  if (!osxsave || !fma || !f16c) return Isa::kBaseline;
  const std::uint64_t state = enabled_state();
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Isa::kBaseline;
  const bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xe6) == 0xe6;
  const bool avx2 = bit(b, 5) && bit(b, 8);
  const bool avx512 = bit(b, 16) && bit(b, 17) && bit(b, 28) && bit(b, 30) && bit(b, 31);
  if (zmm && avx2 && avx512) return Isa::kAvx512;
  if (ymm && avx2) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

Isa active_isa() {
  static const Isa isa = [] {
    const Isa best = best_isa();
    const char* wish = std::getenv("SGLAB_ISA");
    if (wish == nullptr) return best;
    const std::string_view name(wish);
    Isa wanted = best;
    if (name == "baseline") wanted = Isa::kBaseline;
    if (name == "avx2") wanted = Isa::kAvx2;
    return wanted < best ? wanted : best;
  }();
  return isa;
}

bool has_avx512_bf16() {
#if defined(__x86_64__)
  std::uint32_t a, b, c, d;
  if (std::getenv("SGLAB_ISA") != nullptr || best_isa() != Isa::kAvx512) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && bit(a, 5);
#else
  return false;
#endif
}

bool has_amx_bf16() {
#if defined(__x86_64__) && defined(__linux__)
  std::uint32_t a, b, c, d;
  if (!has_avx512_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool tiles = bit(d, 24) && bit(d, 22) && (enabled_state() >> 17 & 3) == 3;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return tiles && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

}  // namespace sglab::cpu
