#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sglab::emu {

struct Warp;
struct Fault;
struct Program;

// A party to a finding: some lanes of a warp at an instruction.
struct Party {
  std::int64_t cta = -1;  // linear index in the grid; -1: none
  std::uint32_t warp = 0;
  std::uint32_t lanes = 0;
  std::int64_t pc = -1;        // -1: no instruction in particular
  std::uint64_t position = 0;  // instructions of the launch executed before
  bool asynchronous = false;   // the operation that the instruction issued, rather than the instruction
};

// What a sanitizer has found. `kind` is a word that programs can test.
struct Finding {
  std::string detector;  // "memory", "races", "tensor", "barriers"; "launch" for faults
  std::string kind;
  std::string message;  // one sentence, without the parties' places
  bool error = true;    // false: legal, but hardly meant
  Party at;
  Party other;
  std::string other_did;  // what the other party did: "wrote it", "released it"
  std::string space;      // of the address: "global", "shared", "local", "tensor"; empty: there is none
  std::uint64_t address =
      0;  // shared: rank of the CTA << 24 | offset; tensor: rank << 32 | lane << 16 | column
  std::uint64_t bytes = 0;
};

// All findings of a launch. The same kind at the same instructions is one finding that was made several
// times; instructions that were unrolled from one place of the source count as one.
class Findings {
 public:
  struct Kept {
    Finding first;
    std::vector<std::uint64_t> positions;  // of all times, up to kMostPositions
    std::uint64_t count = 0;
  };
  static constexpr std::size_t kMostPositions = 1u << 16;

  // `now`: instructions of the launch executed, the position of what is added.
  explicit Findings(const std::uint64_t& now) : now_(now) {}

  // Whether the first error is to end the launch.
  bool stops = false;

  // Throws LaunchFault if findings are to end the launch.
  void report(Finding finding);
  // The same, but never throws.
  void add(Finding finding);
  // Forgets all; `program`: what findings will be of.
  void clear(const Program* program);
  const std::vector<Kept>& all() const { return all_; }

 private:
  using Place = std::pair<std::string, std::int64_t>;

  // Where an instruction comes from, as far as grouping goes.
  Place place_of(std::int64_t pc) const;

  const std::uint64_t& now_;
  const Program* program_ = nullptr;
  std::vector<Kept> all_;
  std::map<std::tuple<std::string, Place, Place>, std::size_t> known_;
};

}  // namespace sglab::emu
