#include "runtime/node_parameters.hpp"

#include "runtime/graph.hpp"
#include "runtime/memory.hpp"

namespace sglab::runtime {
namespace {

// What cuLaunchKernel's and a kernel node's `extra` list may hold.
const void* const kEnd = nullptr;
const auto kBuffer = reinterpret_cast<const void*>(1);

CopyWork::Side side_of(const PitchedPointer& pointer, const Triple& at) {
  const std::size_t slice = pointer.pitch * pointer.height;
  const auto base = reinterpret_cast<std::uint64_t>(pointer.pointer);
  return {base + at.z * slice + at.y * pointer.pitch + at.x, pointer.pitch, slice};
}

}  // namespace

const void* buffer_of(void* const* extra) {
  for (; extra != nullptr && *extra != kEnd; extra += 2) {
    if (*extra == kBuffer) return extra[1];
  }
  return nullptr;
}

Status work_from(const KernelNodeParameters& said, KernelWork& work) {
  return make_kernel_work(said.stub, said.grid, said.block, Dim3{}, said.smem, said.arguments,
                          buffer_of(said.extra), work);
}

Status work_from(const CopyParameters& said, CopyWork& work) {
  if (said.source_array != nullptr || said.target_array != nullptr)
    return fail(kNotSupported, "copies from and to arrays for textures are not supported");
  work = {};
  work.target = side_of(said.target, said.target_at);
  work.source = side_of(said.source, said.source_at);
  work.width = said.extent.x;
  work.height = said.extent.y;
  work.depth = said.extent.z;
  return kSuccess;
}

Status work_from(const FillParameters& said, FillWork& work) {
  if (said.element_bytes != 1 && said.element_bytes != 2 && said.element_bytes != 4) {
    return fail(kInvalidValue, "memset node: elementSize is " + std::to_string(said.element_bytes) +
                                   "; it is 1, 2 or 4 bytes");
  }
  work = {reinterpret_cast<std::uint64_t>(said.target),
          said.pitch,
          said.value,
          said.element_bytes,
          said.width,
          said.height};
  return kSuccess;
}

Status work_from(const HostParameters& said, HostWork& work) {
  if (said.function == nullptr) return fail(kInvalidValue, "host node: no function");
  work = {said.function, said.data};
  return kSuccess;
}

namespace {

template <typename T>
Status put(const auto& said, Work& work) {
  T made;
  const Status status = work_from(said, made);
  if (status == kSuccess) work = std::move(made);
  return status;
}

}  // namespace

Status work_from(NodeParameters& said, Work& work) {
  switch (static_cast<NodeKind>(said.kind)) {
    case NodeKind::kKernel:
      return put<KernelWork>(said.kernel, work);
    case NodeKind::kCopy:
      return put<CopyWork>(said.copy.copy, work);
    case NodeKind::kFill:
      return put<FillWork>(said.fill, work);
    case NodeKind::kHost:
      return put<HostWork>(said.host, work);
    case NodeKind::kGraph: {
      const Graph* const child = live_graph(said.child.graph);
      if (child == nullptr) return no_graph("the child graph");
      work = GraphWork{child->copy()};
      return kSuccess;
    }
    case NodeKind::kEmpty:
      work = NoWork{};
      return kSuccess;
    case NodeKind::kWait:
      work = WaitWork{said.event};
      return kSuccess;
    case NodeKind::kRecord:
      work = RecordWork{said.event};
      return kSuccess;
    case NodeKind::kAllocation: {
      auto memory = graph_memory(said.allocation.bytes);
      if (memory == nullptr) return fail(kMemoryAllocation, "out of memory");
      said.allocation.pointer = memory.get();
      work = AllocationWork{std::move(memory), said.allocation.bytes};
      return kSuccess;
    }
    case NodeKind::kFree:
      work = FreeWork{reinterpret_cast<std::uint64_t>(said.freed)};
      return kSuccess;
  }
  return fail(kNotSupported, "graph nodes of kind " + std::to_string(said.kind) +
                                 " (semaphores, conditions) are not supported");
}

CopyParameters said_of(const CopyWork& work) {
  const auto side = [](const CopyWork::Side& one) {
    return PitchedPointer{reinterpret_cast<void*>(one.address), one.pitch, one.pitch,
                          one.pitch == 0 ? 0 : one.slice / one.pitch};
  };
  CopyParameters said{};
  said.source = side(work.source);
  said.target = side(work.target);
  said.extent = {work.width, work.height, work.depth};
  said.kind = 4;  // cudaMemcpyDefault: addresses tell the direction
  return said;
}

FillParameters said_of(const FillWork& work) {
  return {reinterpret_cast<void*>(work.target),
          work.pitch,
          work.value,
          work.element_bytes,
          work.width,
          work.height};
}

}  // namespace sglab::runtime
