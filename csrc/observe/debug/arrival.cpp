#include "observe/debug/arrival.hpp"

#include "observe/debug/inspect.hpp"

namespace sglab::emu {

bool Arrival::is_of(const Warp& w) const {
  return w.index == warp && linear_index(*w.cta) == cta;
}

std::uint32_t Arrival::line(const Warp& w) const {
  if (lines.empty() || w.group_count == 0) return 0;
  return lines[shown_pc(*w.program, w.groups[0].pc)];
}

}  // namespace sglab::emu
