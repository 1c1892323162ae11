#include "runtime/launch.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "runtime/emulator_launcher.hpp"

namespace sglab::runtime {
namespace {

std::string text_of(Dim3 d) {
  return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

std::uint64_t count(Dim3 d) {
  return std::uint64_t{d.x} * d.y * d.z;
}

Status check(const State& state, const Function& function, Dim3 grid, Dim3 block, Dim3 cluster,
             std::size_t smem) {
  if (count(grid) == 0 || count(block) == 0 || count(block) > 1024) {
    return fail(kInvalidConfiguration,
                function.name + ": grid " + text_of(grid) + ", block " + text_of(block));
  }
  if (smem > static_cast<std::size_t>(function.max_dynamic_smem)) {
    return fail(kInvalidValue, function.name + ": " + std::to_string(smem) +
                                   " bytes of dynamic shared memory; " +
                                   std::to_string(function.max_dynamic_smem) +
                                   " are allowed until cudaFuncSetAttribute asks for more");
  }
  const bool divides =
      count(cluster) != 0 && grid.x % cluster.x == 0 && grid.y % cluster.y == 0 && grid.z % cluster.z == 0;
  const std::uint64_t most = function.non_portable_cluster ? state.device.max_cluster : 8;
  if (!divides || count(cluster) > std::min<std::uint64_t>(most, state.device.max_cluster)) {
    return fail(kInvalidConfiguration,
                function.name + ": cluster " + text_of(cluster) + " for grid " + text_of(grid));
  }
  return kSuccess;
}

}  // namespace

Dim3 cluster_of(const LaunchConfig& config) {
  Dim3 cluster;
  for (std::uint32_t i = 0; i < config.attribute_count; ++i) {
    if (config.attributes[i].id == kAttributeClusterDimension) cluster = config.attributes[i].cluster;
  }
  return cluster;
}

Status launch(const void* stub, Dim3 grid, Dim3 block, Dim3 cluster, std::size_t smem, void** arguments) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const auto found = state.functions.find(stub);
  if (found == state.functions.end()) return fail(kInvalidDeviceFunction, "this kernel was never registered");
  const Function& function = found->second;
  if (const Status status = check(state, function, grid, block, cluster, smem); status != kSuccess)
    return status;
  const FatbinPtx* const ptx = state.ptx_for(*function.module);
  if (ptx == nullptr) {  // few programs print the text of an error
    std::fprintf(stderr, "sglab: %s: %s\n", function.name.c_str(), explanation_of(kNoKernelImageForDevice));
    return kNoKernelImageForDevice;
  }

  std::vector<SglabAllocation> allocations;
  for (const auto& [address, bytes] : state.allocations) allocations.push_back({address, bytes});
  const SglabLaunch request{
      .ptx = ptx->text.c_str(),
      .ptx_bytes = ptx->text.size(),
      .kernel = function.name.c_str(),
      .grid = {grid.x, grid.y, grid.z},
      .block = {block.x, block.y, block.z},
      .cluster = {cluster.x, cluster.y, cluster.z},
      .smem = smem,
      .arguments = arguments,
      .allocations = allocations.data(),
      .allocation_count = allocations.size(),
      .heap_bytes = heap_limit(),
  };
  const char* const problem = state.launcher(&request, state.launcher_data);
  if (problem == nullptr) return kSuccess;
  const bool asserted = std::string_view(problem).find("assert") != std::string_view::npos;
  const Status status = asserted ? kAssert : kLaunchFailure;
  if (state.launcher == launch_on_emulator) {  // a caller that supervises launches decides what goes on
    state.fault = status;
    state.fault_text = problem;
  }
  return fail(status, problem);
}

}  // namespace sglab::runtime
