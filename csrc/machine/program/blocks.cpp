#include "machine/program/blocks.hpp"

namespace sglab::emu {

std::vector<Block> basic_blocks(std::uint32_t begin, std::uint32_t end, const std::vector<Flow>& flows,
                                const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges) {
  std::vector<bool> leader(end - begin + 1, false);
  leader[0] = true;
  for (const auto& [from, to] : edges) leader[to - begin] = true;
  for (std::uint32_t i = begin; i < end; ++i) {
    if (flows[i] != Flow::kNext) leader[i + 1 - begin] = true;
  }
  std::vector<Block> blocks;
  std::vector<std::uint32_t> block_of(end - begin);
  for (std::uint32_t i = begin; i < end; ++i) {
    if (leader[i - begin]) blocks.push_back({i, i, {}, {}});
    blocks.back().end = i + 1;
    block_of[i - begin] = static_cast<std::uint32_t>(blocks.size() - 1);
  }
  std::vector<std::uint32_t> linked_from(blocks.size(), kNoIndex);  // the last block that goes there
  const auto link = [&](std::uint32_t from, std::uint32_t to) {
    if (linked_from[to] == from) return;
    linked_from[to] = from;
    blocks[from].successors.push_back(to);
    blocks[to].predecessors.push_back(from);
  };
  auto edge = edges.begin();
  for (std::uint32_t id = 0; id < blocks.size(); ++id) {
    const std::uint32_t last = blocks[id].end - 1;
    while (edge != edges.end() && edge->first < last) ++edge;
    for (; edge != edges.end() && edge->first == last; ++edge) link(id, block_of[edge->second - begin]);
    const bool falls = flows[last] == Flow::kNext || flows[last] == Flow::kBranch;
    if (falls && id + 1 < blocks.size()) link(id, id + 1);
  }
  return blocks;
}

}  // namespace sglab::emu
