#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>

namespace sglab::emu {

// Reading PTX was interrupted.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// Asks every 30 ms whether to stop.
class Poll {
 public:
  static constexpr std::chrono::milliseconds kInterval{30};

  // `interrupted`: nullptr or empty never stops.
  explicit Poll(const std::function<bool()>* interrupted)
      : interrupted_(interrupted != nullptr && *interrupted ? interrupted : nullptr) {}

  bool operator()() {
    if (interrupted_ == nullptr) return false;
    const auto now = Clock::now();
    if (now < next_) return false;
    next_ = now + kInterval;
    return (*interrupted_)();
  }

  // For loops of short steps: looks at the clock in one of 256. Throws Interrupted.
  void step() {
    if (++steps_ % 256 == 0 && (*this)()) throw Interrupted();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::function<bool()>* interrupted_;
  Clock::time_point next_ = Clock::now() + kInterval;
  std::uint32_t steps_ = 0;
};

}  // namespace sglab::emu
