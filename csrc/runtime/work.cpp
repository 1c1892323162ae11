#include "runtime/work.hpp"

#include <cstring>

#include "runtime/emulator_launcher.hpp"
#include "runtime/graph.hpp"
#include "runtime/launch.hpp"
#include "runtime/memory.hpp"
#include "runtime/streams.hpp"

namespace sglab::runtime {
namespace {

struct Performer {
  Status operator()(const NoWork&) const { return kSuccess; }

  Status operator()(const KernelWork& kernel) const {
    std::vector<void*> arguments;
    for (const std::vector<std::byte>& one : kernel.arguments)
      arguments.push_back(const_cast<std::byte*>(one.data()));
    return launch(kernel.stub, kernel.grid, kernel.block, kernel.cluster, kernel.smem, arguments.data());
  }

  Status operator()(const CopyWork& copy) const {
    if (copy.width == 0) return kSuccess;
    for (std::size_t z = 0; z < copy.depth; ++z) {
      for (std::size_t y = 0; y < copy.height; ++y) {
        std::memmove(at(copy.target, z, y), at(copy.source, z, y), copy.width);
      }
    }
    return kSuccess;
  }

  Status operator()(const FillWork& fill) const {
    for (std::size_t y = 0; y < fill.height; ++y) {
      auto* const row = reinterpret_cast<std::uint8_t*>(fill.target) + y * fill.pitch;
      if (fill.element_bytes == 1) {
        if (fill.width > 0) std::memset(row, static_cast<int>(fill.value), fill.width);
        continue;
      }
      for (std::size_t x = 0; x < fill.width; ++x)
        std::memcpy(row + x * fill.element_bytes, &fill.value, fill.element_bytes);
    }
    return kSuccess;
  }

  Status operator()(const HostWork& host) const {
    host.function(host.data);
    return kSuccess;
  }

  Status operator()(const RecordWork& record) const { return record_now(record.event); }
  Status operator()(const WaitWork&) const { return kSuccess; }  // what it waits for is over

  Status operator()(const AllocationWork& one) const {
    return lend(reinterpret_cast<std::uint64_t>(one.memory.get()), one.bytes);
  }
  Status operator()(const FreeWork& one) const { return release(reinterpret_cast<void*>(one.address)); }

  Status operator()(const GraphWork& one) const { return one.graph->perform(); }

 private:
  static void* at(const CopyWork::Side& side, std::size_t z, std::size_t y) {
    return reinterpret_cast<void*>(side.address + z * side.slice + y * side.pitch);
  }
};

}  // namespace

Status perform(const Work& work) {
  return std::visit(Performer{}, work);
}

Status make_kernel_work(const void* stub, Dim3 grid, Dim3 block, Dim3 cluster, std::size_t smem,
                        void* const* arguments, const void* buffer, KernelWork& work) {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  const auto found = state.functions.find(stub);
  if (found == state.functions.end()) return fail(kInvalidDeviceFunction, "this kernel was never registered");
  const FatbinPtx* const ptx = state.ptx_for(*found->second.module);
  if (ptx == nullptr) return kNoKernelImageForDevice;
  std::vector<ParameterPlace> places;
  if (const Status status = parameters_of(*ptx, found->second.name, places); status != kSuccess)
    return status;
  if (!places.empty() && arguments == nullptr && buffer == nullptr)
    return fail(kInvalidValue, found->second.name + ": the kernel takes " + std::to_string(places.size()) +
                                   " arguments and none were given");
  work = {stub, grid, block, cluster, smem, {}};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto* const from = buffer != nullptr ? static_cast<const std::byte*>(buffer) + places[i].offset
                                               : static_cast<const std::byte*>(arguments[i]);
    work.arguments.emplace_back(from, from + places[i].bytes);
  }
  return kSuccess;
}

CopyWork copy_of(void* target, const void* source, std::size_t bytes) {
  CopyWork copy;
  copy.target.address = reinterpret_cast<std::uint64_t>(target);
  copy.source.address = reinterpret_cast<std::uint64_t>(source);
  copy.width = bytes;
  return copy;
}

}  // namespace sglab::runtime
