#include <algorithm>
#include <bit>
#include <queue>

#include "emulator/program/blocks.hpp"

// Registers that are never alive at the same time share storage. Only registers of one width share, so that a
// lane's bytes stay the same whatever the slot holds: diverged lanes may use one slot for different
// registers.
namespace sglab::emu {
namespace {

constexpr std::uint32_t kNever = 0xffffffffu;

// In half steps: an instruction reads at 2i and writes at 2i+1.
struct Interval {
  std::uint32_t start = kNever;
  std::uint32_t end = 0;
  void cover(std::uint32_t at) {
    start = std::min(start, at);
    end = std::max(end, at);
  }
};

using Bits = std::vector<std::uint64_t>;

struct Liveness {
  std::vector<std::uint32_t> global_index;  // registers mentioned in several blocks get a bit
  std::vector<std::uint32_t> globals;
  std::vector<Bits> live_in;
};

struct Mention {
  std::uint32_t block = kNever;
  bool several = false;
};

bool test(const Bits& bits, std::uint32_t i) {
  return bits[i / 64] >> (i % 64) & 1;
}
void set(Bits& bits, std::uint32_t i) {
  bits[i / 64] |= std::uint64_t{1} << (i % 64);
}

unsigned slot_bytes(char letter) {
  return std::max(64u, 32u * letter_bytes(letter));
}

}  // namespace

void allocate_registers(Decoder& d, std::uint32_t begin, std::uint32_t end) {
  const std::vector<Block> blocks = basic_blocks(begin, end, d.flows_, d.edges_);
  const auto first_site = static_cast<std::size_t>(
      std::lower_bound(d.sites_.begin(), d.sites_.end(), begin,
                       [](const Site& site, std::uint32_t inst) { return site.inst < inst; }) -
      d.sites_.begin());
  const std::uint32_t base = d.first_register_;
  const auto registers = static_cast<std::uint32_t>(d.letters_.size()) - base;
  std::vector<std::size_t> site_at(blocks.size() + 1, d.sites_.size());
  std::vector<Mention> mentions(registers);
  std::size_t site = first_site;
  for (std::uint32_t id = 0; id < blocks.size(); ++id) {
    site_at[id] = site;
    for (; site < d.sites_.size() && d.sites_[site].inst < blocks[id].end; ++site) {
      Mention& mention = mentions[d.sites_[site].reg - base];
      if (mention.block == kNever) mention.block = id;
      mention.several = mention.several || mention.block != id;
    }
  }

  // Reads of a register before any full write in the same block also need a bit: their value comes round a
  // loop.
  std::vector<std::uint32_t> written_in(registers, kNever), index(registers, kNever);
  std::vector<std::uint32_t> globals;
  const auto guarded = [&](const Site& s) { return d.program_.code[s.inst].guard != kNoGuard; };
  for (std::uint32_t id = 0; id < blocks.size(); ++id) {
    std::size_t i = site_at[id];
    while (i < site_at[id + 1]) {
      std::size_t next = i;
      while (next < site_at[id + 1] && d.sites_[next].inst == d.sites_[i].inst) ++next;
      for (std::size_t k = i; k < next; ++k) {
        const std::uint32_t r = d.sites_[k].reg - base;
        const bool early = !d.sites_[k].definition && written_in[r] != id;
        const bool partial = d.sites_[k].definition && guarded(d.sites_[k]) && written_in[r] != id;
        if ((early || partial || mentions[r].several) && index[r] == kNever) {
          index[r] = static_cast<std::uint32_t>(globals.size());
          globals.push_back(r);
        }
      }
      for (std::size_t k = i; k < next; ++k) {
        if (d.sites_[k].definition && !guarded(d.sites_[k])) written_in[d.sites_[k].reg - base] = id;
      }
      i = next;
    }
  }

  const std::size_t words = (globals.size() + 63) / 64;
  std::vector<Bits> reads(blocks.size(), Bits(words)), kills(blocks.size(), Bits(words)),
      live_in(blocks.size(), Bits(words)), live_out(blocks.size(), Bits(words));
  for (std::uint32_t id = 0; id < blocks.size(); ++id) {
    std::size_t i = site_at[id];
    while (i < site_at[id + 1]) {
      std::size_t next = i;
      while (next < site_at[id + 1] && d.sites_[next].inst == d.sites_[i].inst) ++next;
      for (std::size_t k = i; k < next; ++k) {
        const std::uint32_t bit = index[d.sites_[k].reg - base];
        if (bit == kNever) continue;
        // A guarded write leaves other lanes' values alone: it reads, so to speak.
        const bool reading = !d.sites_[k].definition || guarded(d.sites_[k]);
        if (reading && !test(kills[id], bit)) set(reads[id], bit);
      }
      for (std::size_t k = i; k < next; ++k) {
        const std::uint32_t bit = index[d.sites_[k].reg - base];
        if (bit != kNever && d.sites_[k].definition && !guarded(d.sites_[k])) set(kills[id], bit);
      }
      i = next;
    }
  }
  std::vector<bool> queued(blocks.size(), true);
  std::vector<std::uint32_t> work;
  for (std::uint32_t id = 0; id < blocks.size(); ++id) work.push_back(id);
  while (!work.empty()) {
    const std::uint32_t id = work.back();
    work.pop_back();
    queued[id] = false;
    bool changed = false;
    for (std::size_t w = 0; w < words; ++w) {
      std::uint64_t out = 0;
      for (const std::uint32_t next : blocks[id].successors) out |= live_in[next][w];
      live_out[id][w] = out;
      const std::uint64_t in = reads[id][w] | (out & ~kills[id][w]);
      changed = changed || in != live_in[id][w];
      live_in[id][w] = in;
    }
    if (!changed) continue;
    for (const std::uint32_t before : blocks[id].predecessors) {
      if (!queued[before]) queued[before] = true, work.push_back(before);
    }
  }

  std::vector<Interval> intervals(registers);
  for (std::uint32_t id = 0; id < blocks.size(); ++id) {
    for (std::size_t w = 0; w < words; ++w) {
      for (std::uint64_t bits = live_in[id][w]; bits != 0; bits &= bits - 1) {
        intervals[globals[w * 64 + std::countr_zero(bits)]].cover(2 * blocks[id].begin);
      }
      for (std::uint64_t bits = live_out[id][w]; bits != 0; bits &= bits - 1) {
        intervals[globals[w * 64 + std::countr_zero(bits)]].cover(2 * blocks[id].end - 1);
      }
    }
  }
  for (std::size_t i = first_site; i < d.sites_.size(); ++i) {
    const Site& s = d.sites_[i];
    // Only lane-local instructions may write a slot that they still read.
    const bool lanewise = d.program_.code[s.inst].fn[1] != d.program_.code[s.inst].fn[0];
    const std::uint32_t at = 2 * s.inst + (s.definition ? (lanewise ? 1 : 0) : (lanewise ? 0 : 1));
    intervals[s.reg - base].cover(at);
    if (s.definition) intervals[s.reg - base].cover(2 * s.inst + 1);
  }

  d.program_.lifetimes.resize(d.letters_.size());
  std::vector<std::uint32_t> by_start;
  for (std::uint32_t r = 0; r < registers; ++r) {
    if (intervals[r].start != kNever) by_start.push_back(r);
  }
  std::sort(by_start.begin(), by_start.end(), [&](std::uint32_t x, std::uint32_t y) {
    return intervals[x].start != intervals[y].start ? intervals[x].start < intervals[y].start : x < y;
  });
  ProgramFunction& function = d.program_.functions[d.function_];
  function.first_predicate = d.program_.predicates;
  using Ending = std::pair<std::uint32_t, std::uint32_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
  std::vector<Ref> free_slots[128];
  for (const std::uint32_t r : by_start) {
    while (!active.empty() && active.top().first < intervals[r].start) {
      const std::uint32_t done = active.top().second;
      free_slots[static_cast<unsigned char>(d.letters_[base + done])].push_back(
          d.program_.registers[base + done]);
      active.pop();
    }
    const char letter = d.letters_[base + r];
    std::vector<Ref>& reusable = free_slots[static_cast<unsigned char>(letter)];
    Ref place;
    if (!reusable.empty()) {
      place = reusable.back();
      reusable.pop_back();
    } else if (letter == 'p') {
      place = d.program_.predicates++;
    } else {
      place = d.program_.register_bytes;
      d.program_.register_bytes += slot_bytes(letter);
      function.slots.push_back({place, letter_bytes(letter)});
    }
    d.program_.registers[base + r] = place;
    d.program_.lifetimes[base + r] = {intervals[r].start, intervals[r].end};
    active.emplace(intervals[r].end, r);
  }
  function.end_predicate = d.program_.predicates;

  for (std::size_t i = first_site; i < d.sites_.size(); ++i) {
    const Site& s = d.sites_[i];
    if (s.field == kNoField) continue;
    Inst& inst = d.program_.code[s.inst];
    const Ref place = d.program_.registers[s.reg];
    if (s.field == static_cast<std::uint16_t>(Field::kGuard)) {
      inst.guard = static_cast<std::uint16_t>(place << 1 | (inst.guard & 1));
    } else if (s.field >= static_cast<std::uint16_t>(Field::kExtra)) {
      Ref& ref = const_cast<Extra*>(inst.extra)->refs[s.field - static_cast<std::uint16_t>(Field::kExtra)];
      ref = place | (ref & kNegatedRef);
    } else {
      Ref Inst::* const fields[] = {&Inst::d, &Inst::a, &Inst::b, &Inst::c, &Inst::target};
      Ref& ref = inst.*fields[s.field];
      ref = place | (ref & kNegatedRef);
    }
  }
}

}  // namespace sglab::emu
