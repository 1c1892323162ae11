#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <utility>

#include "machine/front/error.hpp"
#include "machine/program/blocks.hpp"

// Registers that are never alive at the same time share storage. Only registers of one width share, so that a
// lane's bytes stay the same no matter what the slot holds: diverged lanes may use one slot for different
// registers.
namespace sglab::emu {
namespace {

constexpr std::uint32_t kNever = 0xffffffffu;
constexpr std::size_t kMostWords = 1u << 24;  // of one set for each block
constexpr std::size_t kMostWork = 1u << 27;   // words of sets that are joined: a part of a second

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

bool test(const Bits& bits, std::uint32_t i) {
  return bits[i / 64] >> (i % 64) & 1;
}
void set(Bits& bits, std::uint32_t i) {
  bits[i / 64] |= std::uint64_t{1} << (i % 64);
}

}  // namespace

class RegisterAllocator {
 public:
  RegisterAllocator(Decoder& decoder, std::uint32_t begin, std::uint32_t end)
      : d_(decoder),
        blocks_(basic_blocks(begin, end, decoder.flows_, decoder.edges_)),
        base_(decoder.first_register_),
        count_(static_cast<std::uint32_t>(decoder.letters_.size()) - base_),
        bit_(count_, kNever),
        intervals_(count_) {
    const auto first =
        std::lower_bound(d_.sites_.begin(), d_.sites_.end(), begin,
                         [](const Site& site, std::uint32_t inst) { return site.inst < inst; });
    first_site_ = static_cast<std::size_t>(first - d_.sites_.begin());
  }

  void run() {
    split_sites();
    find_globals();
    find_liveness();
    find_intervals();
    assign();
    patch();
    if (d_.function_ == 0) note_unset();
  }

 private:
  const Site& site(std::size_t i) const { return d_.sites_[i]; }
  std::uint32_t reg(std::size_t i) const { return d_.sites_[i].reg - base_; }
  // A guarded write leaves other lanes' values alone.
  bool guarded(std::size_t i) const { return d_.program_.code[site(i).inst].guard != kNoGuard; }
  bool full_write(std::size_t i) const { return site(i).definition && !guarded(i); }

  void split_sites() {
    std::size_t at = first_site_;
    for (const Block& block : blocks_) {
      block_sites_.push_back(at);
      while (at < d_.sites_.size() && site(at).inst < block.end) ++at;
    }
    block_sites_.push_back(at);
  }

  // Calls f(first, last) for each instruction's range of sites in a block.
  template <class F>
  void for_each_instruction(std::uint32_t block, F f) const {
    for (std::size_t i = block_sites_[block]; i < block_sites_[block + 1];) {
      std::size_t next = i;
      while (next < block_sites_[block + 1] && site(next).inst == site(i).inst) ++next;
      f(i, next);
      i = next;
    }
  }

  // Liveness across blocks only matters for registers that are mentioned in several blocks, or whose value
  // comes round a loop to a read (or partial write) before the block has written them.
  void find_globals() {
    std::vector<std::uint32_t> home(count_, kNever), written_in(count_, kNever);
    for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
      for_each_instruction(block, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
          const std::uint32_t r = reg(i);
          if (home[r] == kNever) home[r] = block;
          const bool needs_old = !full_write(i) && written_in[r] != block;
          if (bit_[r] == kNever && (home[r] != block || needs_old)) {
            bit_[r] = static_cast<std::uint32_t>(globals_.size());
            globals_.push_back(r);
          }
        }
        for (std::size_t i = first; i < last; ++i) {
          if (full_write(i)) written_in[reg(i)] = block;
        }
      });
    }
    words_ = (globals_.size() + 63) / 64;
  }

  // What a block reads before it writes, and what it writes.
  void summarise(std::uint32_t block, Bits& reads, Bits& writes) const {
    for_each_instruction(block, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const std::uint32_t bit = bit_[reg(i)];
        if (bit != kNever && !full_write(i) && !test(writes, bit)) set(reads, bit);
      }
      for (std::size_t i = first; i < last; ++i) {
        const std::uint32_t bit = bit_[reg(i)];
        if (bit != kNever && full_write(i)) set(writes, bit);
      }
    });
  }

  void find_liveness() {
    std::size_t edges = 0;
    for (const Block& block : blocks_) edges += block.successors.size();
    everywhere_ = std::max(blocks_.size(), edges) * words_ > kMostWords;
    if (everywhere_) return;
    std::vector<Bits> reads(blocks_.size(), Bits(words_)), writes(blocks_.size(), Bits(words_));
    live_in_.assign(blocks_.size(), Bits(words_));
    live_out_.assign(blocks_.size(), Bits(words_));
    std::vector<std::uint32_t> work;
    for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
      summarise(block, reads[block], writes[block]);
      work.push_back(block);
    }
    std::vector<bool> queued(blocks_.size(), true);
    std::size_t spent = 0;
    while (!work.empty()) {
      d_.poll_.step();
      const std::uint32_t block = work.back();
      work.pop_back();
      queued[block] = false;
      spent += (blocks_[block].successors.size() + 1) * words_;
      if (spent > kMostWork) {
        everywhere_ = true;
        return;
      }
      if (!flow(block, reads[block], writes[block])) continue;
      for (const std::uint32_t before : blocks_[block].predecessors) {
        if (!queued[before]) work.push_back(before);
        queued[before] = true;
      }
    }
  }

  // One step of the data flow; true if the block's live-in set grew.
  bool flow(std::uint32_t block, const Bits& reads, const Bits& writes) {
    bool changed = false;
    for (std::size_t w = 0; w < words_; ++w) {
      std::uint64_t out = 0;
      for (const std::uint32_t next : blocks_[block].successors) out |= live_in_[next][w];
      live_out_[block][w] = out;
      const std::uint64_t in = reads[w] | (out & ~writes[w]);
      changed = changed || in != live_in_[block][w];
      live_in_[block][w] = in;
    }
    return changed;
  }

  void cover(const Bits& live, std::uint32_t at) {
    for (std::size_t w = 0; w < words_; ++w) {
      for (std::uint64_t bits = live[w]; bits != 0; bits &= bits - 1) {
        intervals_[globals_[w * 64 + static_cast<std::size_t>(std::countr_zero(bits))]].cover(at);
      }
    }
  }

  void find_intervals() {
    for (const std::uint32_t r : globals_) {
      if (!everywhere_) break;
      intervals_[r].cover(2 * blocks_.front().begin);
      intervals_[r].cover(2 * blocks_.back().end - 1);
    }
    for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
      if (everywhere_) break;
      cover(live_in_[block], 2 * blocks_[block].begin);
      cover(live_out_[block], 2 * blocks_[block].end - 1);
    }
    for (std::size_t i = first_site_; i < d_.sites_.size(); ++i) {
      // Only lane-local instructions may write a slot that they still read.
      const Inst& inst = d_.program_.code[site(i).inst];
      const bool lanewise = inst.fn[1] != inst.fn[0];
      const bool late = lanewise == site(i).definition;
      intervals_[reg(i)].cover(2 * site(i).inst + (late ? 1 : 0));
      if (site(i).definition) intervals_[reg(i)].cover(2 * site(i).inst + 1);
    }
  }

  // Linear scan over the intervals by their start.
  void assign() {
    std::vector<std::uint32_t> order;
    for (std::uint32_t r = 0; r < count_; ++r) {
      if (intervals_[r].start != kNever) order.push_back(r);
    }
    std::sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) {
      return std::pair(intervals_[x].start, x) < std::pair(intervals_[y].start, y);
    });
    d_.program_.lifetimes.resize(d_.letters_.size());
    ProgramFunction& function = d_.program_.functions[d_.function_];
    function.first_predicate = d_.program_.predicates;
    using Ending = std::pair<std::uint32_t, std::uint32_t>;
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
    for (const std::uint32_t r : order) {
      for (; !active.empty() && active.top().first < intervals_[r].start; active.pop()) {
        const std::uint32_t done = active.top().second;
        free_[letter(done)].push_back(d_.program_.registers[base_ + done]);
      }
      d_.program_.registers[base_ + r] = take(letter(r), function);
      d_.program_.lifetimes[base_ + r] = {intervals_[r].start, intervals_[r].end};
      active.emplace(intervals_[r].end, r);
    }
    function.end_predicate = d_.program_.predicates;
  }

  unsigned char letter(std::uint32_t r) const { return static_cast<unsigned char>(d_.letters_[base_ + r]); }

  Ref take(unsigned char letter, ProgramFunction& function) {
    std::vector<Ref>& reusable = free_[letter];
    if (!reusable.empty()) {
      const Ref place = reusable.back();
      reusable.pop_back();
      return place;
    }
    if (letter == 'p') return d_.program_.predicates++;
    const unsigned bytes = letter_bytes(static_cast<char>(letter));
    const Ref place = d_.program_.register_bytes;
    d_.program_.register_bytes += std::max(64u, 32 * bytes);
    function.slots.push_back({place, bytes});
    return place;
  }

  // Writes the places into the instructions.
  void patch() {
    for (std::size_t i = first_site_; i < d_.sites_.size(); ++i) {
      const Site& s = site(i);
      if (s.field == kNoField) continue;
      Inst& inst = d_.program_.code[s.inst];
      const Ref place = d_.program_.registers[s.reg];
      d_.program_.mentions.push_back({s.inst, place, s.field, s.definition, d_.letters_[s.reg] == 'p'});
      if (s.field == static_cast<std::uint16_t>(Field::kGuard)) {
        if (place > kNoGuard / 2 - 1u)
          throw PtxError(d_.program_.places[s.inst].line, 1,
                         "more predicates than a warp can keep at a time");
        inst.guard = static_cast<std::uint16_t>(place << 1 | (inst.guard & 1));
        continue;
      }
      Ref Inst::* const fields[] = {&Inst::d, &Inst::a, &Inst::b, &Inst::c, &Inst::target};
      const auto extra = static_cast<std::uint16_t>(Field::kExtra);
      Ref& ref =
          s.field >= extra ? const_cast<Extra*>(inst.extra)->refs[s.field - extra] : inst.*fields[s.field];
      ref = place | (ref & kNegatedRef);
    }
  }

  void note_unset() {
    for (std::size_t bit = 0; bit < globals_.size(); ++bit) {
      if (!everywhere_ && !test(live_in_[0], static_cast<std::uint32_t>(bit))) continue;
      const std::uint32_t r = globals_[bit];
      d_.program_.unset.push_back({0, d_.program_.registers[base_ + r], 0, true, letter(r) == 'p'});
    }
  }

  Decoder& d_;
  std::vector<Block> blocks_;
  std::uint32_t base_;
  std::uint32_t count_;
  std::size_t first_site_ = 0;
  std::vector<std::size_t> block_sites_;  // where each block's sites begin
  std::vector<std::uint32_t> bit_;        // by register: its place in the sets below
  std::vector<std::uint32_t> globals_;    // the registers that have one
  std::size_t words_ = 0;
  bool everywhere_ = false;  // too many blocks and registers to tell: all of them live all along
  std::vector<Bits> live_in_, live_out_;
  std::vector<Interval> intervals_;
  std::vector<Ref> free_[128];  // by width letter
};

void allocate_registers(Decoder& decoder, std::uint32_t begin, std::uint32_t end) {
  RegisterAllocator(decoder, begin, end).run();
}

}  // namespace sglab::emu
