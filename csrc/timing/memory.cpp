#include "timing/memory.hpp"

#include <bit>

namespace sglab::emu::timing {
namespace {

constexpr std::uint64_t kLine = 128;
constexpr std::uint32_t kWord = 8;          // bytes of the widest word that an atomic changes
constexpr std::uint64_t kSliceLines = 4;    // next to each other in a slice of the L2 cache
constexpr std::uint64_t kSliceRound = 256;  // groups of them that take the slices in turn

}  // namespace

Memory::Memory(const Trace& trace, const Machine& machine)
    : t_(trace), m_(machine), sms_(machine.sms), slices_(machine.l2_slices) {
  const double left = m_.l1_capacity - static_cast<double>(t_.shared_bytes) * t_.ctas_per_sm;
  const auto lines = static_cast<std::size_t>(std::max(left, 8.0 * kLine) / kLine) / kWays * kWays;
  for (Sm& sm : sms_) sm.l1.resize(lines);
  if (m_.warm) {
    measure_footprint();
  } else {
    resident_ = 0;
  }
}

Memory::Shape Memory::shape(std::size_t access) const {
  const std::uint64_t span = t_.accesses.span[access];
  Shape s;
  s.sectors = t_.accesses.sectors[access];
  s.lines = t_.accesses.lines[access];
  s.first = t_.accesses.address[access];
  s.dense = span <= s.sectors * kSector;
  s.last = s.first + span - 1;
  s.stride = s.lines > 1 ? (span - 1) / (s.lines - 1) : 0;
  return s;
}

// What a port takes in one cycle is a sector. A line of which only a part is written needs one more, with
// atomics every line of which there are several sectors; several lanes that write a sector of a line,
// store_line.
double store_units(const Trace& t, const Machine& m, std::size_t row) {
  const std::uint32_t sectors = t.accesses.sectors[row], lines = t.accesses.lines[row];
  if (t.accesses.kind[row] != kStored) return sectors + std::min(lines, sectors - lines);
  const bool whole = t.accesses.bytes[row] >= lines * kLine;
  if (whole) return sectors;
  const bool several = t.accesses.lanes[row] > sectors;
  return std::max<double>(sectors + lines, several ? lines * m.store_line : 0);
}

// The sectors of the i-th line that an access touches, a bit each.
std::uint32_t Memory::sectors_of(const Shape& s, std::uint32_t i) {
  constexpr std::uint32_t kAll = 15, kPerLine = kLine / kSector;
  const std::uint64_t at = s.first + i * s.stride;
  const auto place = static_cast<std::uint32_t>(at % kLine / kSector);
  if (!s.dense) {  // as many on each line
    const std::uint32_t some = (1u << std::min((s.sectors + s.lines - 1) / s.lines, kPerLine)) - 1;
    return (some << place | some << place >> kPerLine) & kAll;
  }
  const std::uint32_t from = i == 0 ? place : 0;
  const std::uint32_t to =
      i + 1 == s.lines ? static_cast<std::uint32_t>(s.last % kLine / kSector) : kPerLine - 1;
  return kAll >> (kPerLine - 1 - to) & kAll << from;
}

// The place of a line in the L1 cache; of its set, what was not used for longest makes room.
Memory::Tag& Memory::in_l1(Sm& sm, std::uint64_t line) {
  Tag* const set = &sm.l1[mix(line) % (sm.l1.size() / kWays) * kWays];
  Tag* chosen = set;
  for (Tag* tag = set; tag != set + kWays && chosen->line != line; ++tag) {
    if (tag->line == line || tag->used < chosen->used) chosen = tag;
  }
  if (chosen->line != line) *chosen = {line, 0, 0, 0};
  chosen->used = ++sm.uses;
  return *chosen;
}

double Memory::load(std::uint32_t sm, double time, std::size_t access, const Cost& cost) {
  const Shape s = shape(access);
  Sm& here = sms_[sm];
  double done = time + m_.l1_latency;
  std::uint32_t lines = s.lines;
  Tag* filled[32];
  std::uint32_t fills = 0, asked = 0, missing = 0;
  for (std::uint32_t i = 0; cost.cached && i < s.lines; ++i) {
    const std::uint32_t sectors = sectors_of(s, i);
    Tag& tag = in_l1(here, (s.first + i * s.stride) / kLine);
    const std::uint32_t absent = sectors & ~tag.sectors;
    asked += static_cast<std::uint32_t>(std::popcount(sectors));
    missing += static_cast<std::uint32_t>(std::popcount(absent));
    if (absent != 0) {
      tag.sectors |= absent;
      filled[fills++] = &tag;
    } else {
      done = std::max(done, tag.filled);
      --lines;
    }
  }
  if (lines == 0) return done;
  const double part = cost.cached ? static_cast<double>(missing) / asked : 1;
  const double bytes = part * s.sectors * kSector;
  bytes_l2_ += bytes;
  double got = here.lsu.serve(time, bytes / m_.load_port);
  got = std::max(got, l2_.serve(time, std::max(bytes / m_.load_rate, lines / m_.l2_lines))) + m_.l2_latency;
  if (cost.streaming) {
    got = std::max(got, from_hbm(time, bytes) + m_.hbm_latency);
  } else {
    got = std::max(got, in_l2(time, s, false) + m_.l2_latency);
  }
  got += translation(here, time, s.first);
  for (std::uint32_t i = 0; i < fills; ++i) filled[i]->filled = got;
  return std::max(done, got);
}

double Memory::store(std::uint32_t sm, double time, std::size_t access) {
  return written(sm, time, access, store_units(t_, m_, access) * kSector / m_.store_rate);
}

// `cycles`: that the L2 cache is busy with it
double Memory::written(std::uint32_t sm, double time, std::size_t access, double cycles) {
  const Shape s = shape(access);
  bytes_l2_ += static_cast<double>(s.sectors) * kSector;
  double done = l2_.serve(time, cycles);
  done = std::max(done, in_l2(time, s, true));
  if (!m_.warm) done += translation(sms_[sm], time, s.first);
  last_write_ = std::max(last_write_, done);
  return done;
}

// Words of one address that lanes of an access change: they take turns.
std::uint32_t lanes_on_a_word(const Trace& t, std::size_t row) {
  const std::uint32_t span = t.accesses.span[row];
  return span <= kWord ? t.accesses.bytes[row] / span : 1;
}

// Neighbouring lines lie in one slice, groups of them next to each other in different slices.
Server& Memory::slice(std::uint64_t line) {
  const std::uint64_t group = line / kSliceLines;
  return slices_[(group + mix(group / kSliceRound)) % slices_.size()];
}

// Sets when the SM's port can send again: it waits for a slice that has too many.
double Memory::atomic(std::uint32_t sm, double time, std::size_t access, const Cost& cost, double& sent) {
  const Shape s = shape(access);
  const std::uint32_t turns = lanes_on_a_word(t_, access);
  const bool one = t_.accesses.span[access] <= kWord;
  const double busy = one ? turns * m_.atomic_turn : m_.atomic_sector * s.sectors / s.lines;
  double done = written(sm, time, access, s.sectors / m_.atomic_rate);
  for (std::uint32_t i = 0; i < s.lines; ++i) {
    const std::uint64_t line = (s.first + i * s.stride) / kLine;
    double changed = slice(line).serve(time, busy);
    if (cost.turn > 0) {
      double& last = changed_.at(line).filled;
      changed = last = std::max(changed, std::max(last, time) + turns * cost.turn);
    }
    done = std::max(done, changed);
  }
  sent = std::max(time + (one ? turns * m_.atomic_port : 0), done - m_.atomic_queue);
  last_write_ = std::max(last_write_, done);
  return done + m_.atomic_latency;
}

// The L2 cache reads bytes once that several SMs ask for while they are under way.
double Memory::given(double time, std::size_t copy, double latency) {
  const std::uint64_t address = t_.copies.address[copy];
  const double bytes = t_.copies.bytes[copy];
  if (address == 0) return l2_.serve(time, bytes / m_.copy_rate);
  double& last = given_.at(address).filled;
  const bool under_way = last != Lines::kNew && last + latency >= time;
  return last = std::max(under_way ? last : 0,
                         l2_.serve(time, bytes / (under_way ? m_.same_copy_rate : m_.copy_rate)));
}

double Memory::copy_in(std::uint32_t sm, double time, std::size_t copy, double latency, bool gathered) {
  const double bytes = t_.copies.bytes[copy];
  const double done = sms_[sm].copies.serve(time, bytes / m_.copy_port);
  if (gathered && t_.copies.address[copy] == 0) return done + latency;  // zeros are written, nothing is read
  bytes_l2_ += bytes;
  const double read = gathered ? l2_.serve(time, bytes / m_.load_rate) : given(time, copy, latency);
  return std::max({done, read, copy_in_l2(time, copy, false, gathered)}) + latency +
         translation(sms_[sm], time, t_.copies.address[copy]);
}

double Memory::copy_out(std::uint32_t sm, double time, std::size_t copy, double& read) {
  const double bytes = t_.copies.bytes[copy];
  bytes_l2_ += bytes;
  read = sms_[sm].copy_stores.serve(time, bytes / m_.copy_store_port) + m_.copy_store_latency;
  double done = std::max(read, l2_.serve(time, bytes / m_.store_rate));
  done = std::max(done, copy_in_l2(time, copy, true, false));
  if (!m_.warm) done += translation(sms_[sm], time, t_.copies.address[copy]);
  last_write_ = std::max(last_write_, done);
  return done;
}

}  // namespace sglab::emu::timing
