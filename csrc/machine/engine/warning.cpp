#include "machine/engine/warning.hpp"

#include <algorithm>

#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"

namespace sglab::emu {

void warn(const Warp& w, const Inst* inst, std::uint32_t lanes, const char* kind,
          const std::string& message) {
  Launch& launch = *w.launch;
  const Warning fresh{kind,    message, linear_index(*w.cta),
                      w.index, lanes,   static_cast<std::uint32_t>(inst - w.code)};
  {
    const std::lock_guard lock(launch.mutex);
    auto& all = launch.warnings;
    auto known = std::find_if(all.begin(), all.end(),
                              [&](const Warning& one) { return one.pc == fresh.pc && one.kind == kind; });
    if (known == all.end()) known = all.insert(known, fresh);
    ++known->count;
  }
  launch.observers.notify([&](Observer& o) { o.warned(w, inst, fresh); });
}

}  // namespace sglab::emu
