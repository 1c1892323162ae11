// CUDA graphs: work and what must be over before it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/work.hpp"

namespace sglab::runtime {

class Graph;

// cudaGraphNodeType
enum class NodeKind : int {
  kKernel = 0,
  kCopy = 1,
  kFill = 2,
  kHost = 3,
  kGraph = 4,
  kEmpty = 5,
  kWait = 6,
  kRecord = 7,
  kAllocation = 10,
  kFree = 11,
};
NodeKind kind_of(const Work& work);

struct Node {
  Graph* graph;
  std::size_t id;  // the same in copies of the graph
  Work work;
  std::vector<Node*> after;  // what must be over first
  bool enabled = true;
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Node* add(Work work, std::span<Node* const> after);
  void remove(Node* node);
  Node* find(std::size_t id) const;
  bool holds(const Node* node) const;
  std::shared_ptr<Graph> copy() const;

  // Each node after those that it depends on, otherwise as they were added; empty if they depend in a circle.
  std::vector<Node*> in_order() const;
  // Does the work of all enabled nodes, in that order, up to the first that fails.
  Status perform() const;

  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::size_t next_id_ = 0;
};

// Handles that programs hold. What they were not given, or have destroyed, is an error and not an address.
Graph* live_graph(const void* handle);
Graph* live_executable(const void* handle);
Node* live_node(const void* handle);
Graph* own(std::shared_ptr<Graph> graph, bool executable);  // the handle
std::shared_ptr<Graph> shared(const Graph* graph);
bool disown(const void* handle, bool executable);
Status no_graph(const char* what);  // records kInvalidValue

}  // namespace sglab::runtime
