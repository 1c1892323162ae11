#include "runtime/emulator_launcher.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "machine/front/error.hpp"
#include "machine/front/parser.hpp"
#include "machine/scheduler/run_launch.hpp"
#include "observe/sanitize/explain.hpp"
#include "runtime/state.hpp"

namespace sglab::runtime {
namespace {

// A module of the program, decoded as far as its kernels were launched. Lives as long as the program.
struct Loaded {
  std::shared_ptr<const emu::Image> image;
  std::map<std::string, std::unique_ptr<emu::Program>> programs;
};

const emu::Program& program_for(const SglabLaunch& request) {
  static std::map<const char*, Loaded> modules;  // launches are serial: State::mutex is held
  Loaded& loaded = modules[request.ptx];
  if (loaded.image == nullptr) {
    std::string text(request.ptx, request.ptx_bytes);
    loaded.image = std::make_shared<emu::Image>(emu::parse_module(std::move(text), "PTX of the program"));
  }
  std::unique_ptr<emu::Program>& program = loaded.programs[request.kernel];
  if (program != nullptr) return *program;
  const auto& functions = loaded.image->module().functions;
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    if (functions[i].entry && functions[i].defined && functions[i].name == request.kernel) {
      program = emu::decode_kernel(loaded.image, i);
      return *program;
    }
  }
  throw std::invalid_argument(std::string("the program's PTX has no kernel ") + request.kernel);
}

std::vector<std::uint8_t> packed(const emu::Program& program, const SglabLaunch& request) {
  std::vector<std::uint8_t> bytes(program.parameter_bytes);
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const emu::ParameterSlot& slot = program.parameters[i];
    std::memcpy(bytes.data() + slot.offset, request.arguments[i], slot.bytes);
  }
  return bytes;
}

emu::LaunchConfig config_of(const emu::Program& program, const SglabLaunch& request, int threads) {
  emu::LaunchConfig config;
  std::copy_n(request.grid, 3, config.grid.begin());
  std::copy_n(request.block, 3, config.block.begin());
  std::copy_n(request.cluster, 3, config.cluster.begin());
  config.dynamic_shared = static_cast<std::uint32_t>(request.smem);
  config.parameters = packed(program, request);
  for (std::uint64_t i = 0; i < request.allocation_count; ++i) {
    const SglabAllocation& allocation = request.allocations[i];
    config.allocations.push_back({allocation.address, allocation.address + allocation.bytes, "cudaMalloc"});
  }
  config.sms = static_cast<std::uint32_t>(State::get().device.sms);
  config.threads = static_cast<std::uint32_t>(threads);
  config.explainer = std::make_shared<const emu::Explanations>();
  return config;
}

std::string text_of(const emu::Fault& fault) {
  std::string text = fault.kernel + ": " + fault.message;
  if (fault.warp >= 0) {
    text += " (CTA " + std::to_string(fault.cta[0]) + ", " + std::to_string(fault.cta[1]) + ", " +
            std::to_string(fault.cta[2]) + ", warp " + std::to_string(fault.warp) + ", PTX line " +
            std::to_string(fault.ptx_line) + ")";
  }
  if (!fault.source_file.empty())
    text += " at " + fault.source_file + ":" + std::to_string(fault.source_line);
  return text;
}

// SGLAB_VERBOSE=1: a line for every launch.
bool verbose() {
  return std::getenv("SGLAB_VERBOSE") != nullptr;
}

void announce(const SglabLaunch& r) {
  std::fprintf(stderr, "sglab: %.*s grid (%u, %u, %u) block (%u, %u, %u) cluster (%u, %u, %u): ", 200,
               r.kernel, r.grid[0], r.grid[1], r.grid[2], r.block[0], r.block[1], r.block[2], r.cluster[0],
               r.cluster[1], r.cluster[2]);
  std::fflush(stderr);
}

}  // namespace

const char* launch_on_emulator(const SglabLaunch* request, void* user) {
  static std::string problem;
  try {
    const emu::Program& program = program_for(*request);
    const int threads = *static_cast<const int*>(user);
    if (verbose()) announce(*request);
    const emu::LaunchReport report =
        emu::run_launch(program, config_of(program, *request, threads), [] { return false; });
    std::fwrite(report.output.data(), 1, report.output.size(), stdout);
    if (verbose()) {
      std::fprintf(stderr, "%llu warp-instructions, %.1f ms\n",
                   static_cast<unsigned long long>(report.warp_instructions), report.seconds * 1e3);
    }
    return nullptr;
  } catch (const emu::LaunchFault& fault) {
    problem = text_of(fault.fault);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  // Few programs print the text of an error, and some request it too late.
  std::fprintf(stderr, "sglab: %s\n", problem.c_str());
  return problem.c_str();
}

}  // namespace sglab::runtime
