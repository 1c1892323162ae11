// The front end as libFuzzer sees it: a text is parsed, its variables are placed and its kernels decoded.
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "machine/front/error.hpp"
#include "machine/program/image.hpp"
#include "machine/program/program.hpp"

namespace {

using namespace sglab::emu;

constexpr std::uint32_t kMostKernels = 4;

// libFuzzer's own limit is one of the clock, which says little on a busy machine; this one is of processor
// time.
class Limit {
 public:
  Limit() {
    const char* text = std::getenv("SGLAB_GUIDED_SECONDS");
    seconds_ = text == nullptr ? 0 : std::atol(text);
    std::signal(SIGPROF, [](int) {
      constexpr char kMessage[] = "SUMMARY: sglab_fuzz: hang\n";
      [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
      std::abort();
    });
  }
  void begin() const { set(seconds_); }
  void end() const { set(0); }

 private:
  static void set(long seconds) {
    const itimerval value{{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &value, nullptr);
  }
  long seconds_;
};

}  // namespace

// PtxError and, as in the Python module, want of memory are answers; whatever else leaves is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Limit limit;
  limit.begin();
  try {
    const auto image = std::make_shared<const Image>(
        parse_module(std::string(reinterpret_cast<const char*>(data), size), "fuzz"));
    std::uint32_t kernels = 0;
    for (std::uint32_t i = 0; i < image->module().functions.size() && kernels < kMostKernels; ++i) {
      const Function& function = image->module().functions[i];
      if (!function.entry || !function.defined) continue;
      ++kernels;
      try {
        decode_kernel(image, i);
      } catch (const PtxError&) {
      }
    }
  } catch (const PtxError&) {
  } catch (const std::bad_alloc&) {
  }
  limit.end();
  return 0;
}
