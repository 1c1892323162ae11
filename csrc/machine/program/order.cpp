#include <algorithm>

#include "machine/program/blocks.hpp"

// Diverged lanes meet again at the earliest possible point if those furthest behind always run first, where
// "behind" follows a topological order that keeps each loop in one piece (Diamos et al., "SIMD re-convergence
// at thread frontiers", MICRO 2011). Compilers mostly lay code out that way; blocks put out of line are moved
// to where they belong.
namespace sglab::emu {
namespace {

constexpr std::uint32_t kNone = 0xffffffffu;

struct Graph {
  const std::vector<Block>& blocks;
  Poll& poll;
  std::vector<std::uint32_t> reverse_postorder;
  std::vector<std::uint32_t> position;  // in reverse_postorder
  std::vector<std::uint32_t> dominator;
  std::vector<std::uint32_t> depth;  // loops around a block

  Graph(const std::vector<Block>& b, Poll& interruptions)
      : blocks(b),
        poll(interruptions),
        position(b.size(), kNone),
        dominator(b.size(), kNone),
        depth(b.size(), 0) {}

  // Depth first; successors in fewer loops are visited first, so that they end up later.
  void walk() {
    reverse_postorder.clear();
    std::fill(position.begin(), position.end(), kNone);
    std::vector<bool> seen(blocks.size(), false);
    struct Frame {
      std::uint32_t block;
      std::vector<std::uint32_t> next;
    };
    const auto successors = [&](std::uint32_t id) {
      std::vector<std::uint32_t> list = blocks[id].successors;
      // Taken from the back: shallow blocks go last in the list; of equals, the later one in the code.
      std::sort(list.begin(), list.end(), [&](std::uint32_t x, std::uint32_t y) {
        return depth[x] != depth[y] ? depth[x] > depth[y] : x < y;
      });
      return list;
    };
    std::vector<Frame> stack;
    seen[0] = true;
    stack.push_back({0, successors(0)});
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next.empty()) {
        reverse_postorder.push_back(top.block);
        stack.pop_back();
        continue;
      }
      const std::uint32_t next = top.next.back();
      top.next.pop_back();
      if (seen[next]) continue;
      seen[next] = true;
      stack.push_back({next, successors(next)});
    }
    std::reverse(reverse_postorder.begin(), reverse_postorder.end());
    for (std::uint32_t i = 0; i < reverse_postorder.size(); ++i) position[reverse_postorder[i]] = i;
  }

  std::uint32_t meet(std::uint32_t x, std::uint32_t y) const {
    while (x != y) {
      while (position[x] > position[y]) x = dominator[x];
      while (position[y] > position[x]) y = dominator[y];
    }
    return x;
  }

  // Cooper, Harvey and Kennedy's iteration.
  void dominators() {
    std::fill(dominator.begin(), dominator.end(), kNone);
    dominator[0] = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::uint32_t id : reverse_postorder) {
        poll.step();
        if (id == 0) continue;
        std::uint32_t best = kNone;
        for (const std::uint32_t before : blocks[id].predecessors) {
          if (position[before] == kNone || dominator[before] == kNone) continue;
          best = best == kNone ? before : meet(best, before);
        }
        changed = changed || best != dominator[id];
        dominator[id] = best;
      }
    }
  }

  bool dominates(std::uint32_t x, std::uint32_t y) const {
    while (position[y] > position[x]) y = dominator[y];
    return x == y;
  }

  void loops() {
    std::vector<std::uint32_t> member(blocks.size(), kNone);
    for (std::uint32_t header = 0; header < blocks.size(); ++header) {
      if (position[header] == kNone) continue;
      std::vector<std::uint32_t> work;
      for (const std::uint32_t tail : blocks[header].predecessors) {
        if (position[tail] != kNone && dominates(header, tail)) work.push_back(tail);
      }
      if (work.empty()) continue;
      member[header] = header;
      ++depth[header];
      while (!work.empty()) {
        poll.step();
        const std::uint32_t id = work.back();
        work.pop_back();
        if (member[id] == header) continue;
        member[id] = header;
        ++depth[id];
        for (const std::uint32_t before : blocks[id].predecessors) {
          if (position[before] != kNone) work.push_back(before);
        }
      }
    }
  }
};

}  // namespace

void order_blocks(Program& program, std::uint32_t begin, std::uint32_t end, const std::vector<Flow>& flows,
                  const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges, Poll& poll) {
  program.order.resize(end);
  for (std::uint32_t i = begin; i < end; ++i) program.order[i] = i;
  const std::vector<Block> blocks = basic_blocks(begin, end, flows, edges);
  Graph graph(blocks, poll);
  graph.walk();
  graph.dominators();
  bool natural = true;  // every jump back closes a loop
  for (std::uint32_t id = 0; id < blocks.size(); ++id) {
    for (const std::uint32_t next : blocks[id].successors) {
      if (next <= id && graph.position[id] != kNone && !graph.dominates(next, id)) natural = false;
    }
  }
  if (natural) return;
  graph.loops();
  graph.walk();
  std::uint32_t rank = begin;
  for (const std::uint32_t id : graph.reverse_postorder) {
    for (std::uint32_t i = blocks[id].begin; i < blocks[id].end; ++i) program.order[i] = rank++;
  }
  for (std::uint32_t id = 0; id < blocks.size(); ++id) {
    if (graph.position[id] != kNone) continue;
    for (std::uint32_t i = blocks[id].begin; i < blocks[id].end; ++i) program.order[i] = rank++;
  }
}

}  // namespace sglab::emu
