#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "emulator/timing/trace.hpp"

namespace sglab::emu::timing {

// Serves one request after the other.
struct Server {
  double free = 0;
  // When a request of `cycles` that comes at `time` has been served.
  double serve(double time, double cycles) { return free = std::max(time, free) + cycles; }
};

// A set of cache lines.
class Lines {
 public:
  bool insert(std::uint64_t line);  // true if it is new
  std::size_t size() const { return count_; }

 private:
  void grow();
  std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(1 << 10);
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
  double atomic(std::uint32_t sm, double time, std::size_t access);
  double copy_in(std::uint32_t sm, double time, std::size_t copy, double latency);
  // `read`: when shared memory has been read. Returns when global memory has been written.
  double copy_out(std::uint32_t sm, double time, std::size_t copy, double& read);

  double last_write() const { return last_write_; }
  double bytes_l2() const { return bytes_l2_; }
  double bytes_hbm() const { return bytes_hbm_; }

 private:
  struct Tag {
    std::uint64_t line = ~std::uint64_t{0};
    double filled = 0;
  };
  struct Sm {
    Server lsu, copies, stores, copy_stores;
    std::vector<Tag> l1;
  };
  // Bytes that a warp's access moves in sectors of 32, and the lines it touches.
  struct Shape {
    std::uint32_t lines, sectors;
    std::uint64_t first, stride;
    bool dense;  // one stretch
  };
  Shape shape(std::size_t access) const;
  bool in_l2(std::uint64_t block);
  // How much of [address, address + bytes) comes from memory rather than from the L2 cache.
  double misses(std::uint64_t address, std::uint64_t bytes);
  double misses(const Shape& access);
  double from_hbm(double time, double bytes);
  void measure_footprint();
  double copy_misses(std::size_t copy);

  const Trace& t_;
  const Machine& m_;
  std::vector<Sm> sms_;
  double through_l2(double time, double bytes);
  Server loads_, copy_loads_, stores_, l2_, hbm_;
  Lines touched_;
  double resident_ = 1;  // the part of the footprint that the L2 cache holds at the start
  double last_write_ = 0, bytes_l2_ = 0, bytes_hbm_ = 0;
};

}  // namespace sglab::emu::timing
