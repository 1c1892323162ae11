#include "emulator/timing/memory.hpp"

namespace sglab::emu::timing {
namespace {

constexpr std::uint64_t kLine = 128, kPage = 4096;
constexpr std::uint64_t kBlock = 64;  // what the L2 cache fetches from memory
constexpr std::uint32_t kSector = 32;

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace

bool Lines::insert(std::uint64_t line) {
  if (2 * count_ >= table_.size()) grow();
  const std::uint64_t wanted = line + 1;  // 0: an empty place
  for (std::size_t at = mix(wanted) & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == wanted) return false;
    if (table_[at] != 0) continue;
    table_[at] = wanted;
    ++count_;
    return true;
  }
}

void Lines::grow() {
  std::vector<std::uint64_t> old(2 * table_.size());
  old.swap(table_);
  count_ = 0;
  for (const std::uint64_t entry : old) {
    if (entry != 0) insert(entry - 1);
  }
}

Memory::Memory(const Trace& trace, const Machine& machine) : t_(trace), m_(machine), sms_(machine.sms) {
  const double left = m_.l1_capacity - static_cast<double>(t_.shared_bytes) * t_.ctas_per_sm;
  const auto lines = static_cast<std::size_t>(std::max(left, 8.0 * kLine) / kLine);
  for (Sm& sm : sms_) sm.l1.resize(lines);
  if (m_.warm) {
    measure_footprint();
  } else {
    resident_ = 0;
  }
}

// A launch whose footprint fits finds all of it. One that is larger finds little: what it touches first, the
// launch before touched long ago.
void Memory::measure_footprint() {
  Lines pages;
  const auto touch = [&](std::uint64_t address, std::uint64_t bytes) {
    for (std::uint64_t page = address / kPage; page * kPage < address + bytes; ++page) pages.insert(page);
  };
  for (std::size_t i = 0; i < t_.accesses.event.size(); ++i) {
    if (t_.accesses.space[i] != 0) continue;
    const Shape s = shape(i);
    for (std::uint32_t line = 0; line < s.lines; ++line) touch(s.first + line * s.stride, 1);
  }
  for (std::size_t i = 0; i < t_.copies.event.size(); ++i) {
    if (t_.copies.address[i] == 0) continue;
    for (std::uint32_t row = 0; row < t_.copies.rows[i]; ++row)
      touch(t_.copies.address[i] + row * t_.copies.pitch[i], t_.copies.row_bytes[i]);
  }
  const double footprint = static_cast<double>(pages.size() * kPage);
  resident_ = std::clamp(3 - 2.5 * footprint / m_.l2_capacity, 0.0, 1.0);
}

Memory::Shape Memory::shape(std::size_t access) const {
  const std::uint64_t address = t_.accesses.address[access], span = t_.accesses.span[access];
  const std::uint32_t lanes = std::max<std::uint32_t>(t_.accesses.lanes[access], 1);
  const auto covered = [&](std::uint64_t unit) {
    return static_cast<std::uint32_t>((address + span - 1) / unit - address / unit + 1);
  };
  const std::uint32_t each = (t_.accesses.bytes[access] / lanes + kSector - 1) / kSector;
  Shape s;
  s.sectors = std::min(covered(kSector), lanes * each);
  s.lines = std::min({covered(kLine), lanes, s.sectors});
  s.first = address;
  s.dense = span <= s.sectors * kSector;
  s.stride = s.lines > 1 ? (span - 1) / (s.lines - 1) : 0;
  return s;
}

bool Memory::in_l2(std::uint64_t block) {
  if (resident_ >= 1) return true;
  if (!touched_.insert(block)) return true;
  return static_cast<double>(mix(block) >> 40) < resident_ * (1 << 24);
}

double Memory::misses(std::uint64_t address, std::uint64_t bytes) {
  if (resident_ >= 1) return 0;
  double missed = 0;
  for (std::uint64_t block = address / kBlock; block * kBlock < address + bytes; ++block) {
    if (!in_l2(block)) missed += static_cast<double>(std::min(kBlock, bytes));
  }
  return std::min(missed, static_cast<double>(bytes));
}

// The same for a warp's access: dense, or a sector or two on each of its lines.
double Memory::misses(const Shape& s) {
  const std::uint64_t bytes = std::uint64_t{s.sectors} * kSector;
  if (resident_ >= 1) return 0;
  if (s.dense) return misses(s.first, bytes);
  double missed = 0;
  for (std::uint32_t i = 0; i < s.lines; ++i) missed += misses(s.first + i * s.stride, bytes / s.lines);
  return missed;
}

double Memory::through_l2(double time, double bytes) {
  return l2_.serve(time, bytes / m_.l2_rate);
}

double Memory::from_hbm(double time, double bytes) {
  bytes_hbm_ += bytes;
  return hbm_.serve(time, bytes / m_.hbm_rate);
}

double Memory::load(std::uint32_t sm, double time, std::size_t access, const Cost& cost) {
  const Shape s = shape(access);
  Sm& here = sms_[sm];
  double done = time + m_.l1_latency;
  std::uint32_t fetched = s.lines;
  std::vector<Tag>& l1 = here.l1;
  Tag* filled[32];
  std::uint32_t fills = 0;
  for (std::uint32_t i = 0; i < s.lines; ++i) {
    const std::uint64_t line = (s.first + i * s.stride) / kLine;
    if (cost.cached) {
      Tag& tag = l1[mix(line) % l1.size()];
      if (tag.line == line) {
        done = std::max(done, tag.filled);
        --fetched;
        continue;
      }
      tag.line = line;
      filled[fills++] = &tag;
    }
  }
  if (fetched == 0) return done;
  const double bytes = static_cast<double>(s.sectors) / s.lines * kSector * fetched;
  bytes_l2_ += bytes;
  double got = here.lsu.serve(time, bytes / m_.load_port);
  got = std::max({got, loads_.serve(time, bytes / m_.load_rate), through_l2(time, bytes)}) + m_.l2_latency;
  const double missed = cost.streaming ? bytes : misses(s);
  if (missed > 0) got = std::max(got, from_hbm(time, missed) + m_.hbm_latency);
  for (std::uint32_t i = 0; i < fills; ++i) filled[i]->filled = got;
  return std::max(done, got);
}

double Memory::store(std::uint32_t sm, double time, std::size_t access) {
  const Shape s = shape(access);
  const double bytes = static_cast<double>(s.sectors) * kSector;
  bytes_l2_ += bytes;
  double done = sms_[sm].stores.serve(time, bytes / m_.store_port);
  done = std::max({done, stores_.serve(time, bytes / m_.store_rate), through_l2(time, bytes)});
  const double missed = misses(s);
  if (missed > 0) done = std::max(done, from_hbm(time, missed));
  last_write_ = std::max(last_write_, done);
  return done;
}

double Memory::atomic(std::uint32_t sm, double time, std::size_t access) {
  return store(sm, time, access) + m_.atomic_latency;
}

double Memory::copy_misses(std::size_t copy) {
  if (resident_ >= 1 || t_.copies.address[copy] == 0) return 0;
  double missed = 0;
  for (std::uint32_t row = 0; row < t_.copies.rows[copy]; ++row)
    missed += misses(t_.copies.address[copy] + row * t_.copies.pitch[copy], t_.copies.row_bytes[copy]);
  return missed;
}

double Memory::copy_in(std::uint32_t sm, double time, std::size_t copy, double latency) {
  const double bytes = t_.copies.bytes[copy];
  bytes_l2_ += bytes;
  double done = sms_[sm].copies.serve(time, bytes / m_.copy_port);
  done = std::max(done, copy_loads_.serve(time, bytes / m_.copy_rate)) + latency;
  const double missed = copy_misses(copy);
  if (missed > 0) done = std::max(done, from_hbm(time, missed) + latency + m_.hbm_latency - m_.l2_latency);
  return done;
}

double Memory::copy_out(std::uint32_t sm, double time, std::size_t copy, double& read) {
  const double bytes = t_.copies.bytes[copy];
  bytes_l2_ += bytes;
  read = sms_[sm].copy_stores.serve(time, bytes / m_.copy_store_port) + m_.copy_store_latency;
  double done = std::max(read, stores_.serve(time, bytes / m_.store_rate));
  const double missed = copy_misses(copy);
  if (missed > 0) done = std::max(done, from_hbm(time, missed));
  last_write_ = std::max(last_write_, done);
  return done;
}

}  // namespace sglab::emu::timing
