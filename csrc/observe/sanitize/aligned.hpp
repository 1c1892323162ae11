#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "observe/sanitize/detector.hpp"

namespace sglab::emu {

// Finds warps whose lanes do not all execute the same .aligned instructions. Barriers take lanes that have
// exited for arrived; what the others do is undefined "if any thread in the warp has exited" (PTX ISA).
class AlignedLanes {
 public:
  explicit AlignedLanes(Findings& findings) : findings_(findings) {}

  void launched(const Launch& launch);
  void cluster_finished(const Cluster& cluster);
  void exited(const Actor& actor);

  // The lanes have come to a barrier, or have passed barrier.cluster.wait.
  void at_barrier(const Actor& actor);
  // They are at a branch and go different ways, which meet again at `join`.
  void parts(const Actor& actor, std::uint32_t join);
  // They are where ways meet again.
  void meets(const Actor& actor);
  // They have done something else that others may notice.
  void acted(const Actor& actor) {
    if (!uneven_.empty()) follow(actor);
  }
  // They have executed any instruction; there is nothing to find before some lanes of a warp have exited.
  void executed(const Actor& actor);

 private:
  struct Passer {
    Party who, barrier;
    std::int64_t at;  // how many barriers they had come to
  };
  // A warp of which some lanes have come to more barriers than others.
  struct Uneven {
    std::vector<Party> barriers;             // since then, as the first lanes came to them
    std::array<std::uint32_t, 32> at{};      // how many of these each lane has come to
    std::map<std::uint32_t, Passer> passed;  // by instruction: who has done it behind a barrier without it
    bool reported = false;                   // or given up
  };
  // Lanes that parted at a branch with a barrier on one of its ways.
  struct Parted {
    Party branch;
    std::uint32_t join = 0, frame = 0;
    std::uint32_t inside = 0, met = 0;     // lanes that have not come to the join yet, and that have
    std::array<std::uint32_t, 32> came{};  // how many barriers each lane has come to on its way
    std::uint32_t most = 0;                // of these
    Party barrier;                         // the latest that some came to
  };
  // Lanes that have met others without having come to all their barriers. What they do behind these says
  // more.
  struct Skipped {
    Party branch, barrier;
  };
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // Cluster::index, Warp::slot
  static Key key_of(const Actor& actor) { return {actor.warp->cluster->index, actor.warp->slot}; }

  void follow(const Actor& actor);
  bool together(const Actor& actor, Uneven& uneven);
  void came(const Actor& actor);
  void judge(const Actor& actor, const Parted& parted);
  void tell(const Key& key);
  void forget_met(std::map<Key, std::vector<Parted>>::iterator warp);
  void settle(std::map<Key, Uneven>::iterator warp, std::uint32_t live);
  void report(Uneven& uneven, const Party& who, const Party& barrier, const char* how, const char* did);

  Findings& findings_;
  std::map<Key, Uneven> uneven_;
  std::map<Key, std::vector<Parted>> parted_;
  std::map<Key, Skipped> skipped_;
  std::map<Key, Party> gone_;  // lanes that have exited, of warps in which others run on
  const Program* program_ = nullptr;
  std::vector<std::uint8_t> whole_;  // by instruction, whether it needs the whole warp; empty until asked
};

}  // namespace sglab::emu
