// Nodes of CUDA graphs: what they do, and changing that.
#include <cstdio>

#include "runtime/graph.hpp"
#include "runtime/memory.hpp"
#include "runtime/node_parameters.hpp"
#include "runtime/symbols.hpp"

using namespace sglab::runtime;

namespace {

Status add(void** node, void* graph, void* const* after, std::size_t count, Work work) {
  Graph* const into = live_graph(graph);
  if (into == nullptr) return no_graph("the graph");
  std::vector<Node*> nodes;
  for (std::size_t i = 0; i < count; ++i) {
    nodes.push_back(live_node(after[i]));
    if (nodes.back() == nullptr || nodes.back()->graph != into)
      return fail(kInvalidValue, "dependency " + std::to_string(i) + " is no node of this graph");
  }
  *node = into->add(std::move(work), nodes);
  return kSuccess;
}

template <typename T>
Status add_said(void** node, void* graph, void* const* after, std::size_t count, const auto* said) {
  T work;
  const Status status = work_from(*said, work);
  return status == kSuccess ? add(node, graph, after, count, std::move(work)) : status;
}

// The work of `handle`, if it is a node of that kind.
template <typename T>
T* work_of(void* handle) {
  Node* const node = live_node(handle);
  T* const work = node == nullptr ? nullptr : std::get_if<T>(&node->work);
  if (work == nullptr) no_graph(node == nullptr ? "the node" : "a node of this kind");
  return work;
}

// The node of an executable graph that was made from `node`.
template <typename T>
T* work_in(void* executable, void* node) {
  const Graph* const graph = live_executable(executable);
  const Node* const from = live_node(node);
  Node* const target = graph == nullptr || from == nullptr ? nullptr : graph->find(from->id);
  T* const work = target == nullptr ? nullptr : std::get_if<T>(&target->work);
  if (work == nullptr) no_graph("the executable graph, or its node of this kind");
  return work;
}

template <typename T>
Status set(T* work, const auto& said) {
  if (work == nullptr) return last_status(false);
  T made;
  const Status status = work_from(said, made);
  if (status == kSuccess) *work = std::move(made);
  return status;
}

// Kernel nodes give back pointers into the node itself, which live as long as it does.
std::vector<void*> pointers_to(KernelWork& work) {
  std::vector<void*> pointers;
  for (std::vector<std::byte>& one : work.arguments) pointers.push_back(one.data());
  return pointers;
}

}  // namespace

#define SGLAB_ADD void **node, void *graph, void *const *after, std::size_t count

SGLAB_CUDA_API Status cudaGraphAddKernelNode(SGLAB_ADD, const KernelNodeParameters* said) {
  return add_said<KernelWork>(node, graph, after, count, said);
}
SGLAB_CUDA_API Status cudaGraphAddMemcpyNode(SGLAB_ADD, const CopyParameters* said) {
  return add_said<CopyWork>(node, graph, after, count, said);
}
SGLAB_CUDA_API Status cudaGraphAddMemcpyNode1D(SGLAB_ADD, void* target, const void* source, std::size_t bytes,
                                               int) {
  return add(node, graph, after, count, copy_of(target, source, bytes));
}
SGLAB_CUDA_API Status cudaGraphAddMemcpyNodeToSymbol(SGLAB_ADD, const void* symbol, const void* source,
                                                     std::size_t bytes, std::size_t offset, int) {
  void* const place = part_of(symbol, offset, bytes);
  return place == nullptr ? last_status(false)
                          : add(node, graph, after, count, copy_of(place, source, bytes));
}
SGLAB_CUDA_API Status cudaGraphAddMemcpyNodeFromSymbol(SGLAB_ADD, void* target, const void* symbol,
                                                       std::size_t bytes, std::size_t offset, int) {
  const void* const place = part_of(symbol, offset, bytes);
  return place == nullptr ? last_status(false)
                          : add(node, graph, after, count, copy_of(target, place, bytes));
}
SGLAB_CUDA_API Status cudaGraphAddMemsetNode(SGLAB_ADD, const FillParameters* said) {
  return add_said<FillWork>(node, graph, after, count, said);
}
SGLAB_CUDA_API Status cudaGraphAddHostNode(SGLAB_ADD, const HostParameters* said) {
  return add_said<HostWork>(node, graph, after, count, said);
}
SGLAB_CUDA_API Status cudaGraphAddChildGraphNode(SGLAB_ADD, void* child) {
  const Graph* const from = live_graph(child);
  if (from == nullptr) return no_graph("the child graph");
  return add(node, graph, after, count, GraphWork{from->copy()});
}
SGLAB_CUDA_API Status cudaGraphAddEmptyNode(SGLAB_ADD) {
  return add(node, graph, after, count, NoWork{});
}
SGLAB_CUDA_API Status cudaGraphAddEventRecordNode(SGLAB_ADD, Event event) {
  return add(node, graph, after, count, RecordWork{event});
}
SGLAB_CUDA_API Status cudaGraphAddEventWaitNode(SGLAB_ADD, Event event) {
  return add(node, graph, after, count, WaitWork{event});
}
SGLAB_CUDA_API Status cudaGraphAddMemAllocNode(SGLAB_ADD, AllocationParameters* said) {
  auto memory = graph_memory(said->bytes);
  if (memory == nullptr) return fail(kMemoryAllocation, "out of memory");
  said->pointer = memory.get();
  return add(node, graph, after, count, AllocationWork{std::move(memory), said->bytes});
}
SGLAB_CUDA_API Status cudaGraphAddMemFreeNode(SGLAB_ADD, void* pointer) {
  return add(node, graph, after, count, FreeWork{reinterpret_cast<std::uint64_t>(pointer)});
}
SGLAB_CUDA_API Status cudaGraphAddNode(void** node, void* graph, void* const* after, const EdgeData*,
                                       std::size_t count, NodeParameters* said) {
  Work work;
  const Status status = work_from(*said, work);
  return status == kSuccess ? add(node, graph, after, count, std::move(work)) : status;
}

SGLAB_CUDA_API Status cudaGraphNodeGetType(void* handle, NodeKind* kind) {
  const Node* const node = live_node(handle);
  if (node == nullptr) return no_graph("the node");
  *kind = kind_of(node->work);
  return kSuccess;
}

SGLAB_CUDA_API Status cudaGraphKernelNodeGetParams(void* node, KernelNodeParameters* said) {
  thread_local std::vector<void*> pointers;  // until the next such call of this thread
  KernelWork* const work = work_of<KernelWork>(node);
  if (work == nullptr) return last_status(false);
  pointers = pointers_to(*work);
  *said = {work->stub,      work->grid, work->block, static_cast<std::uint32_t>(work->smem),
           pointers.data(), nullptr};
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphKernelNodeSetParams(void* node, const KernelNodeParameters* said) {
  return set(work_of<KernelWork>(node), *said);
}
SGLAB_CUDA_API Status cudaGraphKernelNodeSetAttribute(void* node, std::uint32_t attribute,
                                                      const decltype(LaunchAttribute::bytes)* value) {
  KernelWork* const work = work_of<KernelWork>(node);
  if (work == nullptr) return last_status(false);
  if (attribute == kAttributeClusterDimension) std::memcpy(&work->cluster, value, sizeof(work->cluster));
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphMemcpyNodeGetParams(void* node, CopyParameters* said) {
  const CopyWork* const work = work_of<CopyWork>(node);
  if (work == nullptr) return last_status(false);
  *said = said_of(*work);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphMemcpyNodeSetParams(void* node, const CopyParameters* said) {
  return set(work_of<CopyWork>(node), *said);
}
SGLAB_CUDA_API Status cudaGraphMemcpyNodeSetParams1D(void* node, void* target, const void* source,
                                                     std::size_t bytes, int) {
  CopyWork* const work = work_of<CopyWork>(node);
  if (work == nullptr) return last_status(false);
  *work = copy_of(target, source, bytes);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphMemsetNodeGetParams(void* node, FillParameters* said) {
  const FillWork* const work = work_of<FillWork>(node);
  if (work == nullptr) return last_status(false);
  *said = said_of(*work);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphMemsetNodeSetParams(void* node, const FillParameters* said) {
  return set(work_of<FillWork>(node), *said);
}
SGLAB_CUDA_API Status cudaGraphHostNodeSetParams(void* node, const HostParameters* said) {
  return set(work_of<HostWork>(node), *said);
}
SGLAB_CUDA_API Status cudaGraphHostNodeGetParams(void* node, HostParameters* said) {
  const HostWork* const work = work_of<HostWork>(node);
  if (work == nullptr) return last_status(false);
  *said = {work->function, work->data};
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphMemAllocNodeGetParams(void* node, AllocationParameters* said) {
  const AllocationWork* const work = work_of<AllocationWork>(node);
  if (work == nullptr) return last_status(false);
  *said = {};
  said->bytes = work->bytes;
  said->pointer = work->memory.get();
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphChildGraphNodeGetGraph(void* node, void** graph) {
  const GraphWork* const work = work_of<GraphWork>(node);
  if (work == nullptr) return last_status(false);
  *graph = own(work->graph, false);
  return kSuccess;
}

SGLAB_CUDA_API Status cudaGraphExecKernelNodeSetParams(void* executable, void* node,
                                                       const KernelNodeParameters* said) {
  KernelWork* const work = work_in<KernelWork>(executable, node);
  if (work == nullptr) return last_status(false);
  const Dim3 cluster = work->cluster;
  const Status status = set(work, *said);
  work->cluster = cluster;
  return status;
}
SGLAB_CUDA_API Status cudaGraphExecMemcpyNodeSetParams(void* executable, void* node,
                                                       const CopyParameters* said) {
  return set(work_in<CopyWork>(executable, node), *said);
}
SGLAB_CUDA_API Status cudaGraphExecMemcpyNodeSetParams1D(void* executable, void* node, void* target,
                                                         const void* source, std::size_t bytes, int) {
  CopyWork* const work = work_in<CopyWork>(executable, node);
  if (work == nullptr) return last_status(false);
  *work = copy_of(target, source, bytes);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphExecMemsetNodeSetParams(void* executable, void* node,
                                                       const FillParameters* said) {
  return set(work_in<FillWork>(executable, node), *said);
}
SGLAB_CUDA_API Status cudaGraphExecHostNodeSetParams(void* executable, void* node,
                                                     const HostParameters* said) {
  return set(work_in<HostWork>(executable, node), *said);
}
SGLAB_CUDA_API Status cudaGraphExecChildGraphNodeSetParams(void* executable, void* node, void* child) {
  GraphWork* const work = work_in<GraphWork>(executable, node);
  const Graph* const from = live_graph(child);
  if (work == nullptr) return last_status(false);
  if (from == nullptr) return no_graph("the child graph");
  work->graph = from->copy();
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphExecNodeSetParams(void* executable, void* node, NodeParameters* said) {
  const Graph* const graph = live_executable(executable);
  const Node* const from = live_node(node);
  Node* const target = graph == nullptr || from == nullptr ? nullptr : graph->find(from->id);
  if (target == nullptr) return no_graph("the executable graph, or its node");
  Work work;
  if (const Status status = work_from(*said, work); status != kSuccess) return status;
  if (work.index() != target->work.index()) return fail(kInvalidValue, "a node keeps its kind");
  target->work = std::move(work);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphNodeSetEnabled(void* executable, void* node, unsigned enabled) {
  const Graph* const graph = live_executable(executable);
  const Node* const from = live_node(node);
  Node* const target = graph == nullptr || from == nullptr ? nullptr : graph->find(from->id);
  if (target == nullptr) return no_graph("the executable graph, or its node");
  const NodeKind kind = kind_of(target->work);
  if (kind != NodeKind::kKernel && kind != NodeKind::kCopy && kind != NodeKind::kFill)
    return fail(kInvalidValue, "only kernel, memcpy and memset nodes can be switched off");
  target->enabled = enabled != 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphNodeGetEnabled(void* executable, void* node, unsigned* enabled) {
  const Graph* const graph = live_executable(executable);
  const Node* const from = live_node(node);
  const Node* const target = graph == nullptr || from == nullptr ? nullptr : graph->find(from->id);
  if (target == nullptr) return no_graph("the executable graph, or its node");
  *enabled = target->enabled;
  return kSuccess;
}
