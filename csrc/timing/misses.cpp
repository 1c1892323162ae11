#include "timing/memory.hpp"

// What comes from memory rather than from the L2 cache, and which addresses are known already.
namespace sglab::emu::timing {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kBlock = 128;  // what the L2 cache gets from memory in one request
constexpr std::uint64_t kTranslated = std::uint64_t{2} << 20;  // bytes that one translation is for

}  // namespace

Lines::Line& Lines::at(std::uint64_t number) {
  if (2 * count_ >= table_.size()) grow();
  const std::uint64_t wanted = number + 1;
  for (std::size_t place = mix(wanted) & (table_.size() - 1);; place = (place + 1) & (table_.size() - 1)) {
    if (table_[place].name == wanted) return table_[place];
    if (table_[place].name != 0) continue;
    table_[place].name = wanted;
    ++count_;
    return table_[place];
  }
}

void Lines::grow() {
  std::vector<Line> old(2 * table_.size());
  old.swap(table_);
  count_ = 0;
  for (const Line& line : old) {
    if (line.name != 0) at(line.name - 1).filled = line.filled;
  }
}

// A launch whose footprint fits finds all of it. One that is larger finds little: what it touches first, the
// launch before touched long ago.
void Memory::measure_footprint() {
  Lines pages;
  const auto touch = [&](std::uint64_t address, std::uint64_t bytes) {
    for (std::uint64_t page = address / kPage; page * kPage < address + bytes; ++page) pages.at(page);
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

bool Memory::resident(std::uint64_t block) const {
  return static_cast<double>(mix(block) >> 40) < resident_ * (1 << 24);
}

double Memory::from_hbm(double time, double bytes) {
  bytes_hbm_ += bytes;
  return hbm_.serve(time, bytes / m_.hbm_rate);
}

// `bytes`: that move with the block
double Memory::block_in_l2(double time, std::uint64_t block, double bytes, bool stores) {
  double& filled = touched_.at(block).filled;
  if (filled != Lines::kNew) return filled;
  filled = 0;
  if (resident(block)) return 0;
  const double served = from_hbm(time, bytes);
  if (stores) return served;
  return filled = served + m_.hbm_latency - m_.l2_latency;
}

double Memory::in_l2(double time, std::uint64_t address, std::uint64_t bytes, bool stores) {
  double got = 0;
  for (std::uint64_t block = address / kBlock; block * kBlock < address + bytes; ++block)
    got = std::max(got, block_in_l2(time, block, kBlock, stores));
  return got;
}

// The same for a warp's access: dense, or a sector or two on each of its lines.
double Memory::in_l2(double time, const Shape& s, bool stores) {
  if (resident_ >= 1) return 0;
  const std::uint64_t bytes = std::uint64_t{s.sectors} * kSector;
  if (s.dense) return in_l2(time, s.first, bytes, stores);
  double got = 0;
  for (std::uint32_t i = 0; i < s.lines; ++i)
    got = std::max(got, in_l2(time, s.first + i * s.stride, bytes / s.lines, stores));
  return got;
}

// Of what a warp gathers, the log has the lowest address: all its lines are new if that one is.
double Memory::copy_in_l2(double time, std::size_t copy, bool stores, bool gathered) {
  const std::uint64_t address = t_.copies.address[copy];
  if (resident_ >= 1 || address == 0) return 0;
  if (gathered) return block_in_l2(time, address / kBlock, t_.copies.bytes[copy], stores);
  double got = 0;
  for (std::uint32_t row = 0; row < t_.copies.rows[copy]; ++row) {
    const std::uint64_t at = address + row * t_.copies.pitch[copy];
    got = std::max(got, in_l2(time, at, t_.copies.row_bytes[copy], stores));
  }
  return got;
}

double Memory::translation(Sm& sm, double time, std::uint64_t address) {
  double& known = sm.translations.at(address / kTranslated).filled;
  if (known == Lines::kNew) known = time + (m_.warm ? m_.first_load : m_.translation);
  return std::max(0.0, known - time);
}

}  // namespace sglab::emu::timing
