#pragma once

#include <cfenv>

namespace sglab::emu {

// The host's arithmetic as C++ starts it, to nearest and with subnormal numbers, for as long as one lives.
// Threads that execute instructions or read constants hold one: other code in the process may have made
// the thread flush or round otherwise (torch.set_flush_denormal, fesetround), and new threads inherit that.
class PlainArithmetic {
 public:
  PlainArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { std::fesetenv(&before_); }
  PlainArithmetic(const PlainArithmetic&) = delete;
  PlainArithmetic& operator=(const PlainArithmetic&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace sglab::emu
