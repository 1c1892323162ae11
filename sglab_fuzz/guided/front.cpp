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
#include <string_view>
#include <utility>

#include "machine/front/error.hpp"
#include "machine/program/image.hpp"
#include "machine/program/program.hpp"

namespace {

using namespace sglab::emu;

constexpr std::uint32_t kMostKernels = 4;

// What a launch needs of a module, as a text.
std::string interface_of(const Module& module) {
  std::string all =
      module.target + ' ' + std::to_string(module.version[0]) + '.' + std::to_string(module.version[1]);
  const auto add = [&all](auto value) { all += ' ' + std::to_string(value); };
  for (const Function& function : module.functions) {
    if (!function.entry || !function.defined) continue;
    (all += '\n') += function.name;
    for (const Extent& extent : {function.reqntid, function.maxntid, function.reqnctapercluster})
      for (const std::uint32_t size : extent) add(size);
    for (const std::uint32_t index : function.parameters) {
      const Symbol& symbol = module.symbols[index];
      (all += ' ') += symbol.name;
      add(static_cast<unsigned>(symbol.type));
      add(symbol.bytes);
      add(symbol.align);
      add(symbol.offset);
    }
  }
  return all;
}

// Whatever the core takes, the launch interface must take, and read the same.
void compare_header(std::string_view text, const Module& module) {
  std::string read;
  try {
    read = interface_of(parse_header(text, "fuzz"));
  } catch (const PtxError& error) {
    read = error.what();
  }
  if (read == interface_of(module)) return;
  std::fputs("SUMMARY: sglab_fuzz: header-differs\n", stderr);
  std::abort();
}

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
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    Module module;
    try {
      module = parse_module(std::string(text), "fuzz");
    } catch (const PtxError&) {
      try {
        parse_header(text, "fuzz");  // must end, too
      } catch (const PtxError&) {
      }
      limit.end();
      return 0;
    }
    compare_header(text, module);
    const auto image = std::make_shared<const Image>(std::move(module));
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
