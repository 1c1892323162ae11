#include "runtime/emulator_launcher.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>

#include "machine/engine/device_heap.hpp"
#include "machine/front/error.hpp"
#include "machine/front/parser.hpp"
#include "machine/scheduler/progress.hpp"
#include "machine/scheduler/run_launch.hpp"
#include "observe/sanitize/explain.hpp"
#include "observe/sanitize/sanitizer.hpp"
#include "runtime/state.hpp"

namespace sglab::runtime {
namespace {

// A module of the program, decoded as far as its kernels were launched. Lives as long as the program.
struct Loaded {
  std::shared_ptr<const emu::Image> image;
  std::map<std::string, std::unique_ptr<emu::Program>> programs;
};

Loaded& loaded_from(const char* ptx, std::uint64_t bytes) {
  static std::map<const char*, Loaded> modules;  // launches are serial: State::mutex is held
  Loaded& loaded = modules[ptx];
  if (loaded.image == nullptr) {
    std::string text(ptx, bytes);
    loaded.image = std::make_shared<emu::Image>(emu::parse_module(std::move(text), "PTX of the program"));
  }
  return loaded;
}

const emu::Program& program_for(const char* ptx, std::uint64_t bytes, const std::string& kernel) {
  Loaded& loaded = loaded_from(ptx, bytes);
  std::unique_ptr<emu::Program>& program = loaded.programs[kernel];
  if (program != nullptr) return *program;
  const auto& functions = loaded.image->module().functions;
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    if (functions[i].entry && functions[i].defined && functions[i].name == kernel) {
      program = emu::decode_kernel(loaded.image, i);
      return *program;
    }
  }
  throw std::invalid_argument("the program's PTX has no kernel " + kernel);
}

std::vector<std::uint8_t> packed(const emu::Program& program, const SglabLaunch& request) {
  std::vector<std::uint8_t> bytes(program.parameter_bytes);
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const emu::ParameterSlot& slot = program.parameters[i];
    std::memcpy(bytes.data() + slot.offset, request.arguments[i], slot.bytes);
  }
  return bytes;
}

// SGLAB_SANITIZE=1: all launches are watched for races and misuse.
std::shared_ptr<emu::Sanitizer> sanitizer() {
  const char* const wish = std::getenv("SGLAB_SANITIZE");
  if (wish == nullptr || std::strcmp(wish, "1") != 0) return nullptr;
  static const auto kAll = std::make_shared<emu::Sanitizer>(
      emu::Sanitizer::Detectors{.memory = true, .races = true, .tensor = true, .barriers = true});
  return kAll;
}

std::string text_of(const emu::Program& program, const emu::Party& party) {
  if (party.cta < 0) return {};
  std::string text = "CTA " + std::to_string(party.cta) + " warp " + std::to_string(party.warp);
  if (party.pc < 0) return text;
  const emu::Place& place = program.places[static_cast<std::size_t>(party.pc)];
  text += ", PTX line " + std::to_string(place.line);
  if (place.location == emu::kNoIndex) return text;
  const emu::Module& module = program.image->module();
  const emu::Location& location = module.locations[place.location];
  const auto file = module.files.find(location.file);
  return text + (file == module.files.end() ? "" : ", " + file->second + ":" + std::to_string(location.line));
}

void print_findings(const emu::Program& program) {
  const std::shared_ptr<emu::Sanitizer> watching = sanitizer();
  if (watching == nullptr) return;
  for (const emu::Findings::Kept& kept : watching->findings().all()) {
    const emu::Finding& f = kept.first;
    std::string text = "sglab: " + emu::shown_name(program.name) + ": " +
                       (f.error ? "error: " : "warning: ") + f.kind + ": " + f.message + "\n  " +
                       text_of(program, f.at);
    if (f.other.cta >= 0) text += "\n  " + f.other_did + ": " + text_of(program, f.other);
    if (kept.count > 1) text += "\n  " + std::to_string(kept.count) + " times";
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

// At the end of a sanitized program.
void print_leaks() {
  const emu::DeviceHeap::Use left = emu::DeviceHeap::get().use();
  if (left.blocks == 0) return;
  std::fprintf(stderr,
               "sglab: the device heap: warning: device_heap_leak: %llu bytes in %llu blocks that kernels "
               "allocated were never freed\n",
               static_cast<unsigned long long>(left.bytes), static_cast<unsigned long long>(left.blocks));
}

void watch_heap() {
  emu::DeviceHeap::get();  // there before atexit, so that it is there when print_leaks is called
  static const bool watched = sanitizer() != nullptr && std::atexit(print_leaks) == 0;
  (void)watched;
}

emu::SmLimits sm_of(const SglabDevice& device) {
  return {static_cast<std::uint32_t>(device.threads_per_sm), static_cast<std::uint32_t>(device.ctas_per_sm),
          static_cast<std::uint32_t>(device.smem_per_sm)};
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
  config.sm = sm_of(State::get().device);
  config.threads = static_cast<std::uint32_t>(threads);
  if (std::shared_ptr<emu::Sanitizer> watching = sanitizer()) {
    config.explainer = watching;
    config.observer = std::move(watching);
  } else {
    config.explainer = std::make_shared<const emu::Explanations>();
  }
  return config;
}

std::string text_of(const emu::Fault& fault) {
  std::string text = emu::shown_name(fault.kernel) + ": " + fault.message;
  if (fault.warp >= 0) {
    text += " (CTA " + std::to_string(fault.cta[0]) + ", " + std::to_string(fault.cta[1]) + ", " +
            std::to_string(fault.cta[2]) + ", warp " + std::to_string(fault.warp) + ", PTX line " +
            std::to_string(fault.ptx_line) + ")";
  }
  if (!fault.source_file.empty())
    text += " at " + fault.source_file + ":" + std::to_string(fault.source_line);
  return text;
}

std::string text_of(const emu::Program& program, const emu::Warning& warning) {
  return warning.message + " (warp " + std::to_string(warning.warp) + ", PTX line " +
         std::to_string(program.places[warning.pc].line) + ", " + std::to_string(warning.count) + " times)";
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

void* find_variable(const char* ptx, std::uint64_t ptx_bytes, const char* variable, std::uint64_t* bytes) {
  try {
    for (const emu::Allocation& one : loaded_from(ptx, ptx_bytes).image->allocations()) {
      if (one.name != variable) continue;
      *bytes = one.end - one.begin;
      return reinterpret_cast<void*>(one.begin);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sglab: %s\n", error.what());
  }
  return nullptr;
}

Status parameters_of(const FatbinPtx& ptx, const std::string& kernel, std::vector<ParameterPlace>& places) {
  try {
    for (const emu::ParameterSlot& slot : program_for(ptx.text.c_str(), ptx.text.size(), kernel).parameters)
      places.push_back({slot.offset, slot.bytes});
    return kSuccess;
  } catch (const std::exception& error) {
    return fail(kInvalidKernelImage, error.what());
  }
}

Status resident_ctas(const FatbinPtx& ptx, const std::string& kernel, std::uint64_t threads,
                     std::uint64_t smem, const SglabDevice& device, int& ctas) {
  try {
    const emu::Program& program = program_for(ptx.text.c_str(), ptx.text.size(), kernel);
    ctas = static_cast<int>(emu::ctas_per_sm(program, threads, smem, sm_of(device)));
    return kSuccess;
  } catch (const std::exception& error) {
    return fail(kInvalidKernelImage, error.what());
  }
}

// Says once that a launch takes long; never interrupts it.
class LongLaunch {
 public:
  explicit LongLaunch(const emu::Program& program) : name_(emu::shown_name(program.name)) {}
  bool operator()() {
    if (said_ || std::chrono::steady_clock::now() - begin_ < std::chrono::seconds(2)) return false;
    said_ = true;
    std::fprintf(stderr,
                 "sglab: %s runs on the emulator: %llu warp-instructions in 2 s. Ctrl-C ends the program\n",
                 name_.c_str(), static_cast<unsigned long long>(emu::executed_so_far));
    return false;
  }

 private:
  std::string name_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool said_ = false;
};

const char* launch_on_emulator(const SglabLaunch* request, void* user) {
  static std::string problem;
  const emu::Program* known = nullptr;
  try {
    watch_heap();
    const emu::Program& program = program_for(request->ptx, request->ptx_bytes, request->kernel);
    known = &program;
    const int threads = *static_cast<const int*>(user);
    if (verbose()) announce(*request);
    const std::clock_t begin = std::clock();
    const emu::LaunchReport report =
        emu::run_launch(program, config_of(program, *request, threads), LongLaunch(program));
    const double busy = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::fwrite(report.output.data(), 1, report.output.size(), stdout);
    print_findings(program);
    for (const emu::Warning& w : report.warnings)
      std::fprintf(stderr, "sglab: %s: warning: %s\n", emu::shown_name(request->kernel).c_str(),
                   text_of(program, w).c_str());
    if (verbose()) {
      std::fprintf(stderr, "%llu warp-instructions, %.3f ms, %.3f ms of CPU time\n",
                   static_cast<unsigned long long>(report.warp_instructions), report.seconds * 1e3,
                   busy * 1e3);
    }
    return nullptr;
  } catch (const emu::LaunchFault& fault) {
    problem = text_of(fault.fault);
    if (known != nullptr) print_findings(*known);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  // Few programs print the text of an error, and some request it too late.
  std::fprintf(stderr, "sglab: %s\n", problem.c_str());
  return problem.c_str();
}

}  // namespace sglab::runtime
