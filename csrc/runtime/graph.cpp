#include "runtime/graph.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "runtime/state.hpp"

namespace sglab::runtime {
namespace {

using Graphs = std::unordered_map<const void*, std::shared_ptr<Graph>>;

// Guarded by State::mutex.
struct Handles {
  Graphs graphs, executables;
  std::unordered_set<const void*> nodes;
};

Handles& handles() {
  static Handles* const all = new Handles;  // outlives every host program's destructors
  return *all;
}

// In the order of Work's alternatives.
constexpr NodeKind kKinds[] = {
    NodeKind::kEmpty,  NodeKind::kKernel, NodeKind::kCopy,       NodeKind::kFill, NodeKind::kHost,
    NodeKind::kRecord, NodeKind::kWait,   NodeKind::kAllocation, NodeKind::kFree, NodeKind::kGraph,
};
static_assert(std::size(kKinds) == std::variant_size_v<Work>);

Graph* live(const Graphs& all, const void* handle) {
  const std::lock_guard lock(State::get().mutex);
  const auto found = all.find(handle);
  return found == all.end() ? nullptr : found->second.get();
}

}  // namespace

NodeKind kind_of(const Work& work) {
  return kKinds[work.index()];
}

Graph::Graph() = default;

Graph::~Graph() {
  const std::lock_guard lock(State::get().mutex);
  for (const auto& node : nodes_) handles().nodes.erase(node.get());
}

Node* Graph::add(Work work, std::span<Node* const> after) {
  auto node = std::make_unique<Node>(Node{this, next_id_++, std::move(work), {}});
  for (Node* const one : after) {
    if (std::ranges::find(node->after, one) == node->after.end()) node->after.push_back(one);
  }
  const std::lock_guard lock(State::get().mutex);
  handles().nodes.insert(node.get());
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

void Graph::remove(Node* node) {
  for (const auto& other : nodes_) std::erase(other->after, node);
  const std::lock_guard lock(State::get().mutex);
  handles().nodes.erase(node);
  std::erase_if(nodes_, [node](const auto& one) { return one.get() == node; });
}

Node* Graph::find(std::size_t id) const {
  for (const auto& node : nodes_) {
    if (node->id == id) return node.get();
  }
  return nullptr;
}

bool Graph::holds(const Node* node) const {
  return std::ranges::any_of(nodes_, [node](const auto& one) { return one.get() == node; });
}

std::shared_ptr<Graph> Graph::copy() const {
  auto other = std::make_shared<Graph>();
  std::unordered_map<const Node*, Node*> twins;
  for (const auto& node : nodes_) {
    Work work = node->work;
    if (auto* const child = std::get_if<GraphWork>(&work)) child->graph = child->graph->copy();
    Node* const made = other->add(std::move(work), {});
    made->id = node->id;
    made->enabled = node->enabled;
    twins[node.get()] = made;
  }
  for (const auto& node : nodes_) {
    for (const Node* const before : node->after) twins[node.get()]->after.push_back(twins[before]);
  }
  other->next_id_ = next_id_;
  return other;
}

std::vector<Node*> Graph::in_order() const {
  std::vector<Node*> order;
  std::unordered_set<const Node*> done;
  while (order.size() < nodes_.size()) {
    const std::size_t before = order.size();
    for (const auto& node : nodes_) {
      if (done.contains(node.get())) continue;
      if (!std::ranges::all_of(node->after, [&](const Node* one) { return done.contains(one); })) continue;
      done.insert(node.get());
      order.push_back(node.get());
    }
    if (order.size() == before) return {};
  }
  return order;
}

Status Graph::perform() const {
  for (const Node* const node : in_order()) {
    if (!node->enabled) continue;
    if (const Status status = runtime::perform(node->work); status != kSuccess) return status;
  }
  return kSuccess;
}

Graph* live_graph(const void* handle) {
  return live(handles().graphs, handle);
}

Graph* live_executable(const void* handle) {
  return live(handles().executables, handle);
}

Node* live_node(const void* handle) {
  const std::lock_guard lock(State::get().mutex);
  return handles().nodes.contains(handle) ? static_cast<Node*>(const_cast<void*>(handle)) : nullptr;
}

Graph* own(std::shared_ptr<Graph> graph, bool executable) {
  const std::lock_guard lock(State::get().mutex);
  Graph* const handle = graph.get();
  (executable ? handles().executables : handles().graphs)[handle] = std::move(graph);
  return handle;
}

std::shared_ptr<Graph> shared(const Graph* graph) {
  const std::lock_guard lock(State::get().mutex);
  for (const auto* const all : {&handles().graphs, &handles().executables}) {
    if (const auto found = all->find(graph); found != all->end()) return found->second;
  }
  return nullptr;
}

bool disown(const void* handle, bool executable) {
  std::shared_ptr<Graph> last;  // destroyed after the map has let go of it
  const std::lock_guard lock(State::get().mutex);
  auto& all = executable ? handles().executables : handles().graphs;
  const auto found = all.find(handle);
  if (found == all.end()) return false;
  last = std::move(found->second);
  all.erase(found);
  return true;
}

Status no_graph(const char* what) {
  return fail(kInvalidValue, std::string(what) + ": it was never made, or was destroyed");
}

}  // namespace sglab::runtime
