#include <algorithm>

#include "timing/clock.hpp"

// Memory, copies and tensor cores: when what an instruction started is done.
namespace sglab::emu::timing {
namespace {

constexpr double kWavefront = 128;  // bytes that shared memory or the L1 cache moves per cycle
constexpr std::uint8_t kWrites = 2, kBoth = 3;
enum CopyKind : std::uint8_t {
  kTensorLoad,
  kTensorStore,
  kTensorReduce,
  kBulkLoad,
  kBulkStore,
  kSharedToShared,
  kBulkReduce,
  kReduceToShared,
  kStoreWords,
  kTensorPrefetch,
  kBulkPrefetch,
  kSmallCopy,
};

}  // namespace

double Clock::lsu_cycles(std::uint64_t event) const {
  double bytes = 0, lines = 0;
  for (std::size_t row = first_row(t_.accesses.event, event);
       row < t_.accesses.event.size() && t_.accesses.event[row] == event; ++row) {
    bytes += t_.accesses.bytes[row];
    const bool stored = t_.accesses.space[row] == 0 && (t_.accesses.kind[row] & kWrites) != 0;
    lines +=
        stored ? store_units(t_, m_, row) : std::max(t_.accesses.lines[row], t_.accesses.wavefronts[row]);
  }
  return std::max({1.0, bytes / kWavefront, lines});
}

double Clock::shared_cycles(const Warp& w, std::uint64_t event, bool& remote) const {
  const std::size_t row = first_row(t_.accesses.event, event);
  if (row == t_.accesses.event.size() || t_.accesses.event[row] != event) return 1;
  remote = t_.accesses.address[row] >> kRankShift != t_.rank_of[w.cta];
  return std::max<double>(t_.accesses.wavefronts[row], 1);
}

// Generic instructions may reach shared memory, too.
double Clock::global(Warp& w, const Cost& cost, std::uint64_t event, double time) {
  double end = time + 1;
  for (std::size_t row = first_row(t_.accesses.event, event);
       row < t_.accesses.event.size() && t_.accesses.event[row] == event; ++row) {
    double done;
    if (t_.accesses.space[row] != 0) {
      done = time + cost.latency;
    } else if (t_.accesses.kind[row] == kBoth) {
      double sent = 0;
      done = memory_.atomic(w.sm, time, row, cost, sent);
      Server& port = sms_[w.sm].lsu;
      port.free = std::max(port.free, sent);
    } else if (t_.accesses.kind[row] == kWrites) {
      done = memory_.store(w.sm, time, row);
    } else {
      done = memory_.load(w.sm, time, row, cost);
    }
    end = std::max(end, done);
  }
  return end;
}

void Clock::copy(Warp& w, std::uint64_t event, double time) {
  for (std::size_t row = first_row(t_.copies.event, event);
       row < t_.copies.event.size() && t_.copies.event[row] == event; ++row) {
    double done = time, read = time;
    const std::uint8_t kind = t_.copies.kind[row];
    Groups& bulk = w.groups[static_cast<int>(Group::kBulk)];
    switch (kind) {
      case kTensorLoad:
      case kTensorPrefetch:
        done = memory_.copy_in(w.sm, time, row, m_.tensor_copy_latency);
        break;
      case kBulkLoad:
      case kBulkPrefetch:
        done = memory_.copy_in(w.sm, time, row, m_.copy_latency);
        break;
      case kSmallCopy: {
        done = memory_.copy_in(w.sm, time, row, m_.cp_async_latency, true);
        Groups& small = w.groups[static_cast<int>(Group::kCpAsync)];
        small.open = std::max(small.open, done);
        w.copies = std::max(w.copies, done);
        break;
      }
      case kSharedToShared:
      case kReduceToShared:
      case kStoreWords:
        done = time + m_.remote_latency + t_.copies.bytes[row] / m_.copy_store_port;
        break;
      default:
        done = memory_.copy_out(w.sm, time, row, read);
        bulk.open = std::max(bulk.open, done);
        bulk.open_read = std::max(bulk.open_read, read);
    }
    out_.copy_start[row] = time;
    out_.copy_end[row] = done;
    for (std::uint32_t i = contributions_.copy_begin[row]; i < contributions_.copy_begin[row + 1]; ++i)
      contribute(contributions_.copy_phases[i], done);
  }
}

// When all but the youngest `argument` groups are complete. A negative argument waits for uncommitted copies,
// too.
double Clock::wait(Warp& w, const Cost& cost) {
  Groups& groups = w.groups[static_cast<int>(cost.group)];
  std::vector<double>& of = cost.read_only ? groups.read : groups.done;
  double time = cost.argument < 0 ? groups.open : 0;
  const std::size_t stay = static_cast<std::size_t>(std::max(cost.argument, 0));
  const std::size_t leave = of.size() > stay ? of.size() - stay : 0;
  for (std::size_t i = 0; i < leave; ++i) time = std::max(time, of[i]);
  if (!cost.read_only) {
    groups.done.erase(groups.done.begin(), groups.done.begin() + static_cast<std::ptrdiff_t>(leave));
    groups.read.erase(groups.read.begin(), groups.read.begin() + static_cast<std::ptrdiff_t>(leave));
  }
  return time;
}

double Clock::tcgen05(Warp& w, const Cost& cost, std::uint64_t event, double time) {
  double end = time + cost.latency;
  for (std::size_t row = first_row(t_.tcgen05.event, event);
       row < t_.tcgen05.event.size() && t_.tcgen05.event[row] == event; ++row) {
    const double busy = t_.tcgen05.busy[row], latency = t_.tcgen05.latency[row];
    double start;
    if (cost.action == Action::kTcgen05) {
      Server& own = sms_[w.sm].tensor;
      start = own.serve(time, busy) - busy;
      if (t_.tcgen05.cta_group[row] == 2) {
        const std::uint32_t peer =
            members_[std::size_t{t_.cluster_of[w.cta]} * t_.cluster_size + (t_.rank_of[w.cta] ^ 1u)];
        start = std::max(start, sms_[out_.cta_sm[peer]].tensor.free);
        own.free = sms_[out_.cta_sm[peer]].tensor.free = start + busy;
      }
      w.tensor = std::max(w.tensor, start + busy + latency);
    } else {
      const bool stores = cost.action == Action::kTmemStore;
      Server& port = sms_[w.sm].parts[w.part].units[static_cast<int>(Unit::kTensor)];
      start = port.serve(time, busy) - busy;
      w.tmem[stores] = std::max(w.tmem[stores], start + busy + latency);
    }
    out_.tcgen05_start[row] = start;
    out_.tcgen05_end[row] = start + busy + latency;
    end = std::max(end, start + busy + latency);
  }
  return end;
}

void Clock::commit(std::uint64_t event, double time) {
  const auto& commits = contributions_.commits;
  auto at =
      std::lower_bound(commits.begin(), commits.end(), event,
                       [](const Contributions::Asynchronous& c, std::uint64_t e) { return c.event < e; });
  for (; at != commits.end() && at->event == event; ++at) contribute(at->phase, time);
}

}  // namespace sglab::emu::timing
