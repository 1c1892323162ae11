#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "timing/trace.hpp"

namespace sglab::emu::timing {

constexpr std::uint32_t kSector = 32;
constexpr std::size_t kWays = 4;  // of the L1 cache, assumed

inline std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Serves one request after the other.
struct Server {
  double free = 0;
  // When a request of `cycles` that comes at `time` has been served.
  double serve(double time, double cycles) { return free = std::max(time, free) + cycles; }
};

constexpr std::uint8_t kStored = 2;  // kinds of accesses: 1 reads, 2 writes, 3 does both

// Cycles that an SM's port needs for what a row stores or exchanges.
double store_units(const Trace& trace, const Machine& machine, std::size_t row);

// A set of cache lines, and when each has been filled.
class Lines {
 public:
  struct Line {
    std::uint64_t name = 0;  // number + 1; 0: an empty place
    double filled = kNew;
  };
  static constexpr double kNew = -1;

  Line& at(std::uint64_t number);  // valid until the next call
  std::size_t size() const { return count_; }

 private:
  void grow();
  std::vector<Line> table_ = std::vector<Line>(1 << 10);
  std::size_t count_ = 0;
};

// Caches, the ports of the SMs and the memory behind them. Requests come in order of time.
class Memory {
 public:
  Memory(const Trace& trace, const Machine& machine);

  // When the row's bytes have been loaded, stored, or exchanged. A store's end is when the warp may forget
  // it.
  double load(std::uint32_t sm, double time, std::size_t access, const Cost& cost);
  double store(std::uint32_t sm, double time, std::size_t access);
  double atomic(std::uint32_t sm, double time, std::size_t access, const Cost& cost, double& sent);
  // `gathered`: by the lanes of a warp, each from an address of its own.
  double copy_in(std::uint32_t sm, double time, std::size_t copy, double latency, bool gathered = false);
  // `read`: when shared memory has been read. Returns when global memory has been written.
  double copy_out(std::uint32_t sm, double time, std::size_t copy, double& read);

  double last_write() const { return last_write_; }
  double bytes_l2() const { return bytes_l2_; }
  double bytes_hbm() const { return bytes_hbm_; }

 private:
  struct Tag {
    std::uint64_t line = ~std::uint64_t{0};
    std::uint64_t used = 0;
    double filled = 0;
    std::uint32_t sectors = 0;  // that are there, a bit each
  };
  struct Sm {
    Server lsu, copies, copy_stores;
    std::vector<Tag> l1;  // sets of kWays
    std::uint64_t uses = 0;
    Lines translations;
  };
  // Bytes that a warp's access moves in sectors of 32, and the lines it touches.
  struct Shape {
    std::uint32_t lines, sectors;
    std::uint64_t first, last, stride;
    bool dense;  // one stretch
  };
  Shape shape(std::size_t access) const;
  static std::uint32_t sectors_of(const Shape& s, std::uint32_t i);
  static Tag& in_l1(Sm& sm, std::uint64_t line);
  Server& slice(std::uint64_t line);
  double written(std::uint32_t sm, double time, std::size_t access, double cycles);
  double given(double time, std::size_t copy, double latency);
  // When what is loaded of [address, address + bytes) has come into the L2 cache, from memory or on its way
  // already, or the memory has taken what is stored; 0: it has been there.
  double in_l2(double time, std::uint64_t address, std::uint64_t bytes, bool stores);
  double in_l2(double time, const Shape& access, bool stores);
  double copy_in_l2(double time, std::size_t copy, bool stores, bool gathered);
  double block_in_l2(double time, std::uint64_t block, double bytes, bool stores);
  bool resident(std::uint64_t block) const;
  double from_hbm(double time, double bytes);
  // Cycles that an SM's first access to a page waits for its translation.
  double translation(Sm& sm, double time, std::uint64_t address);
  void measure_footprint();

  const Trace& t_;
  const Machine& m_;
  std::vector<Sm> sms_;
  Server l2_, hbm_;
  std::vector<Server> slices_;       // of the L2 cache, which change words
  Lines touched_, given_, changed_;  // given_: copies by address, when the L2 cache last gave their bytes;
                                     // changed_: lines, when their last change that takes long was done
  double resident_ = 1;              // the part of the footprint that the L2 cache holds at the start
  double last_write_ = 0, bytes_l2_ = 0, bytes_hbm_ = 0;
};

}  // namespace sglab::emu::timing
