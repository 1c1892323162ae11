// CUDA graphs as a whole: making, asking, instantiating, launching, updating.
#include <cstdio>
#include <memory>

#include "runtime/graph.hpp"
#include "runtime/streams.hpp"

using namespace sglab::runtime;

namespace {

// Fills the program's array of `*count` places and says how many there are; null asks only for that.
Status give(const std::vector<Node*>& nodes, void** places, std::size_t* count) {
  if (places != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) places[i] = i < nodes.size() ? nodes[i] : nullptr;
  }
  *count = places == nullptr ? nodes.size() : std::min(*count, nodes.size());
  return kSuccess;
}

std::vector<Node*> dependents_of(const Node* node) {
  std::vector<Node*> found;
  for (const auto& other : node->graph->nodes()) {
    if (std::ranges::find(other->after, node) != other->after.end()) found.push_back(other.get());
  }
  return found;
}

// cudaGraphInstantiateResult
constexpr int kInstantiated = 0, kInvalidStructure = 2;

Status instantiate(void** executable, void* handle) {
  const Graph* const graph = live_graph(handle);
  if (graph == nullptr) return no_graph("the graph");
  if (graph->in_order().size() != graph->nodes().size())
    return fail(kInvalidValue, "the graph's nodes depend on each other in a circle");
  *executable = own(graph->copy(), true);
  return kSuccess;
}

// cudaGraphExecUpdateResult
enum : int { kUpdated = 0, kTopologyChanged = 2, kKindChanged = 3 };

// Whether `next` has the nodes and dependencies of `now`, and which node is the first that differs.
int compare(const Graph& now, const Graph& next, const Node*& differing) {
  differing = nullptr;
  if (now.nodes().size() != next.nodes().size()) return kTopologyChanged;
  std::vector<std::pair<const Node*, const Node*>> pairs;
  for (std::size_t i = 0; i < now.nodes().size(); ++i)
    pairs.emplace_back(now.nodes()[i].get(), next.nodes()[i].get());
  const auto position = [](const Graph& graph, const Node* node) {
    return std::ranges::find_if(graph.nodes(), [node](const auto& one) { return one.get() == node; }) -
           graph.nodes().begin();
  };
  for (const auto& [mine, theirs] : pairs) {
    differing = theirs;
    if (mine->work.index() != theirs->work.index()) return kKindChanged;
    if (mine->after.size() != theirs->after.size()) return kTopologyChanged;
    for (std::size_t i = 0; i < mine->after.size(); ++i) {
      if (position(now, mine->after[i]) != position(next, theirs->after[i])) return kTopologyChanged;
    }
  }
  differing = nullptr;
  return kUpdated;
}

const char* word_for(NodeKind kind) {
  static const char* const kWords[] = {"kernel", "memcpy", "memset", "host",
                                       "graph",  "empty",  "wait",   "record"};
  if (kind == NodeKind::kAllocation) return "alloc";
  return kind == NodeKind::kFree ? "free" : kWords[static_cast<int>(kind)];
}

}  // namespace

SGLAB_CUDA_API Status cudaGraphCreate(void** graph, unsigned) {
  *graph = own(std::make_shared<Graph>(), false);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphDestroy(void* graph) {
  return disown(graph, false) ? kSuccess : no_graph("the graph");
}
SGLAB_CUDA_API Status cudaGraphClone(void** clone, void* graph) {
  const Graph* const original = live_graph(graph);
  if (original == nullptr) return no_graph("the graph");
  *clone = own(original->copy(), false);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphNodeFindInClone(void** found, void* node, void* clone) {
  const Node* const original = live_node(node);
  const Graph* const graph = live_graph(clone);
  if (original == nullptr || graph == nullptr) return no_graph("the node or the clone");
  *found = graph->find(original->id);
  return *found == nullptr ? no_graph("the node in the clone") : kSuccess;
}
SGLAB_CUDA_API Status cudaGraphDestroyNode(void* handle) {
  Node* const node = live_node(handle);
  if (node == nullptr) return no_graph("the node");
  node->graph->remove(node);
  return kSuccess;
}

SGLAB_CUDA_API Status cudaGraphGetNodes(void* handle, void** nodes, std::size_t* count) {
  const Graph* const graph = live_graph(handle);
  if (graph == nullptr) return no_graph("the graph");
  std::vector<Node*> found;
  for (const auto& node : graph->nodes()) found.push_back(node.get());
  return give(found, nodes, count);
}
SGLAB_CUDA_API Status cudaGraphGetRootNodes(void* handle, void** nodes, std::size_t* count) {
  const Graph* const graph = live_graph(handle);
  if (graph == nullptr) return no_graph("the graph");
  std::vector<Node*> found;
  for (const auto& node : graph->nodes()) {
    if (node->after.empty()) found.push_back(node.get());
  }
  return give(found, nodes, count);
}
SGLAB_CUDA_API Status cudaGraphGetEdges(void* handle, void** from, void** to, EdgeData* edges,
                                        std::size_t* count) {
  const Graph* const graph = live_graph(handle);
  if (graph == nullptr) return no_graph("the graph");
  std::vector<Node*> starts, ends;
  for (const auto& node : graph->nodes()) {
    for (Node* const before : node->after) starts.push_back(before), ends.push_back(node.get());
  }
  std::size_t again = *count;
  if (edges != nullptr) std::fill_n(edges, std::min(*count, starts.size()), EdgeData{});
  give(starts, from, &again);
  return give(ends, to, count);
}
SGLAB_CUDA_API Status cudaGraphNodeGetDependencies(void* handle, void** nodes, EdgeData* edges,
                                                   std::size_t* count) {
  const Node* const node = live_node(handle);
  if (node == nullptr) return no_graph("the node");
  if (edges != nullptr) std::fill_n(edges, std::min(*count, node->after.size()), EdgeData{});
  return give(node->after, nodes, count);
}
SGLAB_CUDA_API Status cudaGraphNodeGetDependentNodes(void* handle, void** nodes, EdgeData* edges,
                                                     std::size_t* count) {
  const Node* const node = live_node(handle);
  if (node == nullptr) return no_graph("the node");
  const std::vector<Node*> found = dependents_of(node);
  if (edges != nullptr) std::fill_n(edges, std::min(*count, found.size()), EdgeData{});
  return give(found, nodes, count);
}

SGLAB_CUDA_API Status cudaGraphAddDependencies(void* handle, void* const* from, void* const* to,
                                               const EdgeData*, std::size_t count) {
  const Graph* const graph = live_graph(handle);
  if (graph == nullptr) return no_graph("the graph");
  for (std::size_t i = 0; i < count; ++i) {
    Node* const before = live_node(from[i]);
    Node* const after = live_node(to[i]);
    if (before == nullptr || after == nullptr || before->graph != graph || after->graph != graph)
      return fail(kInvalidValue, "edge " + std::to_string(i) + " joins what are no nodes of this graph");
    if (std::ranges::find(after->after, before) != after->after.end())
      return fail(kInvalidValue, "edge " + std::to_string(i) + " is there already");
    after->after.push_back(before);
  }
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphRemoveDependencies(void*, void* const* from, void* const* to, const EdgeData*,
                                                  std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Node* const after = live_node(to[i]);
    if (after == nullptr || std::erase(after->after, live_node(from[i])) == 0)
      return fail(kInvalidValue, "there is no edge " + std::to_string(i));
  }
  return kSuccess;
}

SGLAB_CUDA_API Status cudaGraphInstantiate(void** executable, void* graph, unsigned long long) {
  return instantiate(executable, graph);
}
SGLAB_CUDA_API Status cudaGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return instantiate(executable, graph);
}
SGLAB_CUDA_API Status cudaGraphInstantiateWithParams(void** executable, void* graph,
                                                     InstantiateParameters* said) {
  const Status status = instantiate(executable, graph);
  said->failed = nullptr;
  said->result = status == kSuccess ? kInstantiated : kInvalidStructure;
  return status;
}
SGLAB_CUDA_API Status cudaGraphExecGetFlags(void* executable, unsigned long long* flags) {
  if (live_executable(executable) == nullptr) return no_graph("the executable graph");
  *flags = 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cudaGraphExecDestroy(void* executable) {
  return disown(executable, true) ? kSuccess : no_graph("the executable graph");
}
SGLAB_CUDA_API Status cudaGraphUpload(void* executable, Stream) {
  return live_executable(executable) == nullptr ? no_graph("the executable graph") : kSuccess;
}
SGLAB_CUDA_API Status cudaGraphLaunch(void* executable, Stream stream) {
  if (live_executable(executable) == nullptr) return no_graph("the executable graph");
  return submit(stream, GraphWork{shared(static_cast<Graph*>(executable))});
}
SGLAB_CUDA_API Status cudaGraphExecUpdate(void* executable, void* handle, UpdateResult* result) {
  const Graph* const now = live_executable(executable);
  const Graph* const next = live_graph(handle);
  if (now == nullptr || next == nullptr) return no_graph("the executable graph or the graph");
  const Node* differing = nullptr;
  *result = {compare(*now, *next, differing), const_cast<Node*>(differing), nullptr};
  if (result->result != kUpdated)
    return fail(kGraphExecUpdateFailure, "the graph has other nodes or dependencies; instantiate it");
  const std::shared_ptr<Graph> copy = next->copy();
  for (std::size_t i = 0; i < now->nodes().size(); ++i)
    now->nodes()[i]->work = std::move(copy->nodes()[i]->work);
  return kSuccess;
}

// A picture for Graphviz: nodes with their kind, edges from what comes first.
SGLAB_CUDA_API Status cudaGraphDebugDotPrint(void* handle, const char* path, unsigned) {
  const Graph* const graph = live_graph(handle);
  if (graph == nullptr) return no_graph("the graph");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "w"), std::fclose);
  if (file == nullptr) return fail(kInvalidValue, std::string("cannot write ") + path);
  std::fprintf(file.get(), "digraph {\n");
  for (const auto& node : graph->nodes()) {
    std::fprintf(file.get(), "  n%zu [label=\"%zu %s\"];\n", node->id, node->id,
                 word_for(kind_of(node->work)));
    for (const Node* const before : node->after)
      std::fprintf(file.get(), "  n%zu -> n%zu;\n", before->id, node->id);
  }
  std::fprintf(file.get(), "}\n");
  return kSuccess;
}
