#include "machine/engine/launch.hpp"

#include <algorithm>
#include <utility>

#include "machine/engine/device_heap.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kSharedPerCta = 232448;
constexpr std::uint64_t kWorthThreads = 1
                                        << 14;  // likely warp-instructions: some 0.1 ms; a thread costs 20 µs

using Extent3 = std::array<std::uint32_t, 3>;

std::string shown(const Extent3& e) {
  return "(" + std::to_string(e[0]) + ", " + std::to_string(e[1]) + ", " + std::to_string(e[2]) + ")";
}

std::uint64_t product(const Extent3& e) {
  return std::uint64_t{e[0]} * e[1] * e[2];
}

[[noreturn]] void refuse(const Program& program, const std::string& message) {
  Fault fault;
  fault.kind = "launch";
  fault.kernel = program.name;
  fault.message = message;
  throw LaunchFault(std::move(fault));
}

void check(const Program& program, const LaunchConfig& config) {
  if (!program.unsupported.empty()) {
    std::string text = "kernel " + program.name + " uses what the emulator does not know:";
    for (const std::string& what : program.unsupported) text += "\n  " + what;
    refuse(program, text);
  }
  const Function& source = program.image->module().functions[program.source];
  const std::uint64_t threads = product(config.block), ctas = product(config.cluster);
  if (threads == 0 || threads > 1024 || config.block[2] > 64) {
    refuse(program, "block " + shown(config.block) + " must hold 1 to 1024 threads");
  }
  if (product(config.grid) == 0 || config.grid[0] > 0x7fffffffu || config.grid[1] > 65535 ||
      config.grid[2] > 65535) {
    refuse(program, "grid " + shown(config.grid) + " is out of range");
  }
  if (ctas == 0 || ctas > 16) refuse(program, "cluster " + shown(config.cluster) + " must hold 1 to 16 CTAs");
  for (unsigned i = 0; i < 3; ++i) {
    if (config.grid[i] % config.cluster[i] != 0) {
      refuse(program, "cluster " + shown(config.cluster) + " does not divide grid " + shown(config.grid));
    }
  }
  if (source.reqntid[0] != 0 && source.reqntid != config.block) {
    refuse(program, "the kernel requires block " + shown(source.reqntid) + ", not " + shown(config.block));
  }
  if (source.maxntid[0] != 0 && threads > product(source.maxntid)) {
    refuse(program,
           "block " + shown(config.block) + " exceeds the kernel's .maxntid " + shown(source.maxntid));
  }
  if (source.reqnctapercluster[0] != 0 && source.reqnctapercluster != config.cluster) {
    refuse(program, "the kernel requires cluster " + shown(source.reqnctapercluster) + ", not " +
                        shown(config.cluster));
  }
  const std::uint64_t shared = std::uint64_t{program.shared_bytes} + config.dynamic_shared;
  if (shared > kSharedPerCta) {
    refuse(program, "shared memory: " + std::to_string(program.shared_bytes) + " static + " +
                        std::to_string(config.dynamic_shared) + " dynamic bytes exceed " +
                        std::to_string(kSharedPerCta));
  }
  if (config.parameters.size() != program.parameter_bytes) {
    refuse(program, "the kernel takes " + std::to_string(program.parameter_bytes) +
                        " bytes of parameters, not " + std::to_string(config.parameters.size()));
  }
}

// CTAs that wait for their whole grid must all be resident at once: a GPU refuses a launch of more.
void check_meeting(const Program& program, const LaunchConfig& config) {
  if (!program.uses_grid_workspace) return;
  const std::uint64_t threads = product(config.block), wanted = product(config.grid);
  const std::uint32_t per_sm = ctas_per_sm(program, threads, config.dynamic_shared, config.sm);
  const std::uint64_t most = std::uint64_t{per_sm} * config.sms;
  if (wanted <= most) return;
  const std::uint64_t shared = std::uint64_t{program.shared_bytes} + config.dynamic_shared;
  refuse(program,
         "grid " + shown(config.grid) + " has " + std::to_string(wanted) +
             " CTAs, and the kernel waits for its whole grid (grid.sync), so that all must be "
             "resident at once; the GPU's " +
             std::to_string(config.sms) + " SMs hold at most " + std::to_string(most) + ", " +
             std::to_string(per_sm) + " each, with " + std::to_string(threads) + " threads and " +
             std::to_string(shared) +
             " bytes of shared memory per CTA (on a GPU: cudaErrorCooperativeLaunchTooLarge). Launch " +
             "at most " + std::to_string(most) + " and let each CTA do several parts of the work");
}

std::uint32_t host_threads(const Program& program, const LaunchConfig& config) {
  if (config.observer != nullptr) return 1;
  if (!config.threads_if_apart) return std::max(config.threads, 1u);
  const std::uint64_t warps = (product(config.block) + 31) / 32 * product(config.grid);
  const bool alone =
      program.clusters_meet || config.max_instructions != 0 || warps * program.likely_length < kWorthThreads;
  return alone ? 1 : std::max(config.threads, 1u);
}

std::uint32_t resident_clusters(const Program& program, const LaunchConfig& config) {
  const std::uint32_t per_sm = ctas_per_sm(program, product(config.block), config.dynamic_shared, config.sm);
  const std::uint64_t ctas = std::uint64_t{std::max(config.sms, 1u)} * per_sm;
  const std::uint64_t clusters = ctas / product(config.cluster);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, clusters / std::max(config.threads, 1u)));
}

}  // namespace

std::uint32_t ctas_per_sm(const Program& program, std::uint64_t threads, std::uint64_t dynamic_shared,
                          const SmLimits& sm) {
  const std::uint64_t in_warps = std::max<std::uint64_t>((threads + 31) / 32 * 32, 32);
  const std::uint64_t shared = std::max<std::uint64_t>(program.dynamic_shared + dynamic_shared, 1);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(
      1, std::min({std::uint64_t{sm.ctas}, sm.threads / in_warps, sm.shared / shared})));
}

const Allocation* Launch::find(std::uint64_t address) const {
  auto above = std::upper_bound(allocations.begin(), allocations.end(), address,
                                [](std::uint64_t a, const Allocation& b) { return a < b.begin; });
  if (above == allocations.begin()) return nullptr;
  --above;
  return address < above->end ? &*above : nullptr;
}

const Allocation* Launch::find(std::uint64_t address, std::uint64_t bytes) const {
  const Allocation* const found = find(address);
  return found != nullptr && bytes <= found->end - address ? found : nullptr;
}

std::string Launch::nearest(std::uint64_t address) const {
  constexpr std::uint64_t kNullPages = 1 << 16;  // where no system puts memory
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
  if (address < kNullPages)
    return (address == 0 ? "" : std::to_string(address) + " bytes past ") +
           std::string("a null pointer: None or 0 was passed, or a pointer was never set");
  const Allocation* best = nullptr;
  std::uint64_t distance = 0;
  for (const Allocation& a : allocations) {
    const std::uint64_t d = address < a.begin ? a.begin - address : address >= a.end ? address - a.end : 0;
    if (best == nullptr || d < distance) best = &a, distance = d;
  }
  if (best == nullptr) return "no memory was registered for this launch";
  if (distance >= kFar) return "far from all memory of this launch";
  const std::string name = (best->name.empty() ? "an allocation" : "'" + best->name + "'") +
                           std::string(" (") + hex(best->begin) + ", " +
                           std::to_string(best->end - best->begin) + " bytes)";
  if (address < best->begin) return std::to_string(distance) + " bytes before " + name;
  if (address >= best->end) return std::to_string(distance) + " bytes past the end of " + name;
  return "across the end of " + name;
}

std::unique_ptr<Launch> prepare_launch(const Program& program, LaunchConfig config) {
  check(program, config);
  check_meeting(program, config);
  const std::uint64_t clusters = product(config.grid) / product(config.cluster);
  config.threads =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(host_threads(program, config), clusters));
  auto launch = std::make_unique<Launch>();
  launch->program = &program;
  launch->allocations = std::move(config.allocations);
  const std::vector<Allocation>& own = program.image->allocations();
  launch->allocations.insert(launch->allocations.end(), own.begin(), own.end());
  if (program.uses_grid_workspace) {
    const auto at = reinterpret_cast<std::uint64_t>(launch->grid_workspace.data());
    launch->allocations.push_back({at, at + sizeof(launch->grid_workspace), "the grid's workspace"});
  }
  // Otherwise no pointer leads there, and every checkpoint of a session would look through it.
  if (program.uses_device_heap || DeviceHeap::get().use().blocks > 0)
    launch->allocations.push_back(DeviceHeap::get().span());
  std::erase_if(launch->allocations, [](const Allocation& a) { return a.begin >= a.end; });
  std::sort(launch->allocations.begin(), launch->allocations.end(),
            [](const Allocation& a, const Allocation& b) { return a.begin < b.begin; });
  for (unsigned i = 0; i < 3; ++i) launch->clusters[i] = config.grid[i] / config.cluster[i];
  launch->cluster_total = product(launch->clusters);
  launch->resident = resident_clusters(program, config);
  launch->concurrent = config.threads > 1;
  launch->apart = launch->concurrent && !program.clusters_meet;
  launch->config = std::move(config);
  if (launch->config.observer != nullptr) launch->observers.add(*launch->config.observer);
  launch->observers.notify([&](Observer& o) { o.launched(*launch); });
  return launch;
}

}  // namespace sglab::emu
