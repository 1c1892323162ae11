#include "machine/engine/warning.hpp"

#include <algorithm>

#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"

namespace sglab::emu {

void warn(const Warp& w, const Inst* inst, std::uint32_t lanes, const char* kind,
          const std::string& message) {
  Launch& launch = *w.launch;
  Warning fresh{kind,    message, linear_index(*w.cta),
                w.index, lanes,   static_cast<std::uint32_t>(inst - w.code)};
  fresh.cluster = w.cluster->index;
  {
    const std::lock_guard lock(launch.mutex);
    auto& all = launch.warnings;
    auto known = std::find_if(all.begin(), all.end(),
                              [&](const Warning& one) { return one.pc == fresh.pc && one.kind == kind; });
    fresh.given = launch.warned++;
    fresh.count = known == all.end() ? 1 : known->count + 1;
    if (known == all.end())
      all.push_back(fresh);
    else if (launch.apart && fresh.cluster < known->cluster)
      *known = fresh;  // as if clusters ran one after the other
    else
      known->count = fresh.count;
  }
  launch.observers.notify([&](Observer& o) { o.warned(w, inst, fresh); });
}

}  // namespace sglab::emu
