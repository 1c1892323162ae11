#include "observe/sanitize/deadlock.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/ops/operands.hpp"
#include "observe/record/accesses.hpp"
#include "observe/sanitize/barrier_address.hpp"
#include "observe/sanitize/barriers.hpp"
#include "observe/sanitize/reach.hpp"

namespace sglab::emu {
namespace {

struct Node {
  const Warp* warp;
  const Group* group;
};

// Who may end a wait, and by which instruction.
struct Candidate {
  std::size_t node;
  std::uint32_t pc;
  int score;
};

class Search {
 public:
  Search(const Cluster& cluster, const BarrierSanitizer* history)
      : cluster_(cluster), history_(history), addresses_(*cluster.program) {
    for (const Warp& w : cluster.warps) {
      for (std::uint32_t i = 0; i < w.group_count; ++i) {
        if (w.groups[i].wait != Wait::kReady) nodes_.push_back({&w, &w.groups[i]});
      }
    }
  }

  std::vector<WaitLink> run() const {
    std::vector<WaitLink> best;
    for (std::size_t start = 0; start < nodes_.size() && start < kStarts; ++start) {
      std::vector<WaitLink> chain = follow(start);
      const bool better = best.empty() || (closed(chain) && !closed(best));
      if (better) best = std::move(chain);
      if (closed(best)) break;
    }
    return best;
  }

 private:
  static constexpr std::size_t kStarts = 64;

  static bool closed(const std::vector<WaitLink>& chain) { return !chain.empty() && chain.back().next == 0; }

  std::vector<WaitLink> follow(std::size_t start) const {
    std::vector<std::size_t> path;
    std::vector<Candidate> chosen;
    for (std::size_t at = start;;) {
      const auto seen = std::find(path.begin(), path.end(), at);
      if (seen != path.end()) {
        // What leads to the circle is no part of it.
        const auto skip = seen - path.begin();
        return links({path.begin() + skip, path.end()}, {chosen.begin() + skip, chosen.end()}, true);
      }
      path.push_back(at);
      const std::vector<Candidate> all = candidates(at);
      if (all.empty()) return links(path, chosen, false);
      chosen.push_back(*std::max_element(
          all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.score < b.score; }));
      at = chosen.back().node;
    }
  }

  std::vector<WaitLink> links(const std::vector<std::size_t>& path, const std::vector<Candidate>& chosen,
                              bool circle) const {
    std::vector<WaitLink> chain;
    for (std::size_t i = 0; i < path.size(); ++i) {
      WaitLink link = link_of(nodes_[path[i]]);
      if (i < chosen.size()) {
        link.next = static_cast<std::int64_t>(i + 1 == path.size() && circle ? 0 : i + 1);
        Fault at;
        locate(at, *nodes_[path[i]].warp, chosen[i].pc);
        link.next_pc = chosen[i].pc;
        link.next_line = at.ptx_line;
      }
      chain.push_back(std::move(link));
    }
    return chain;
  }

  WaitLink link_of(const Node& node) const {
    WaitLink link;
    Fault at;
    locate(at, *node.warp, node.group->pc);
    link.cta = at.cta;
    link.warp = node.warp->index;
    link.lanes = node.group->mask;
    link.pc = node.group->pc;
    link.ptx_line = at.ptx_line;
    link.source_file = at.source_file;
    link.source_line = at.source_line;
    link.object = node.group->key;
    link.waits = describe_wait(*node.warp, *node.group);
    switch (node.group->wait) {
      case Wait::kMbarrier:
        link.kind = "mbarrier";
        describe_mbarrier(node, link);
        break;
      case Wait::kBarrier:
        link.kind = "barrier";
        link.phase = static_cast<std::int64_t>(node.group->ticket);
        break;
      case Wait::kClusterBarrier:
        link.kind = "cluster_barrier";
        link.phase = static_cast<std::int64_t>(cluster_.barrier.phase);
        break;
      case Wait::kWarp:
        link.kind = "lanes";
        break;
      case Wait::kAsync:
        link.kind = "wgmma";
        break;
      default:
        link.kind = "tensor_memory";
    }
    return link;
  }

  Mbarrier mbarrier_at(std::uint64_t address) const {
    std::uint64_t word;
    std::memcpy(&word, cluster_.ctas[address >> kSharedRankShift].shared + (address & kSharedOffsetMask), 8);
    return Mbarrier::load(word);
  }

  void describe_mbarrier(const Node& node, WaitLink& link) const {
    const Mbarrier state = mbarrier_at(node.group->key);
    link.phase = state.phase ? 1 : 0;
    link.waits += ", whose phase of parity " + std::to_string(link.phase) + " is not complete: ";
    link.waits += std::to_string(state.pending) + " of " + std::to_string(state.expected) + " arrivals";
    if (state.tx_count > 0) link.waits += " and " + std::to_string(state.tx_count) + " bytes";
    link.waits += " missing";
    if (const std::uint64_t ended =
            cluster_.async->mbarrier_phases(static_cast<std::uint32_t>(node.group->key)))
      link.waits +=
          " (" + std::to_string(ended) + (ended == 1 ? " phase has" : " phases have") + " completed)";
    if (state.tx_count < 0) link.waits += ", " + std::to_string(-state.tx_count) + " bytes too many";
  }

  std::vector<Candidate> candidates(std::size_t of) const {
    const Node& waiting = nodes_[of];
    std::vector<Candidate> all;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& other = nodes_[i];
      if (i == of) continue;
      switch (waiting.group->wait) {
        case Wait::kWarp:
          if (other.warp == waiting.warp && (other.group->mask & waiting.group->key) != 0)
            all.push_back({i, waiting.group->pc, 1});
          break;
        case Wait::kBarrier:
          add_barrier(waiting, i, all);
          break;
        case Wait::kClusterBarrier:
          if (other.group->wait != Wait::kClusterBarrier) add_any(i, kArrivesAtCluster, all);
          break;
        case Wait::kMbarrier:
          add_mbarrier(waiting, i, all);
          break;
        case Wait::kAsync:
          if (other.warp->cta == waiting.warp->cta && other.warp->index / 4 == waiting.warp->index / 4)
            add_any(i, kIssuesWgmma, all);
          break;
        default:
          add_any(i, kReleasesTmem, all);
      }
    }
    return all;
  }

  // The lanes are at an instruction that they have begun: what they do next comes after it.
  std::vector<std::uint32_t> future(const Node& node, std::uint8_t what) const {
    return reachable(*cluster_.program, node.group->pc + (node.group->wait == Wait::kWarp ? 0 : 1), what);
  }

  void add_any(std::size_t node, std::uint8_t what, std::vector<Candidate>& all) const {
    const std::vector<std::uint32_t> found = future(nodes_[node], what);
    if (!found.empty()) all.push_back({node, *std::min_element(found.begin(), found.end()), 1});
  }

  void add_barrier(const Node& waiting, std::size_t node, std::vector<Candidate>& all) const {
    const Node& other = nodes_[node];
    const NamedBarrier& named = waiting.warp->cta->barriers[waiting.group->key];
    if (other.warp->cta != waiting.warp->cta) return;
    if (other.warp->index < named.lanes.size() && (named.lanes[other.warp->index] & other.group->mask) != 0)
      return;
    for (const std::uint32_t pc : future(other, kArrivesAtBarrier)) {
      const Inst& inst = cluster_.program->code[pc];
      const bool known = (inst.a & kConstantRef) != 0;
      if (!known || lanes32(*other.warp, inst.a)[0] == waiting.group->key)
        all.push_back({node, pc, known ? 2 : 1});
    }
  }

  void add_mbarrier(const Node& waiting, std::size_t node, std::vector<Candidate>& all) const {
    const Node& other = nodes_[node];
    const auto address = static_cast<std::uint32_t>(waiting.group->key);
    const std::set<Arriver>* const before =
        history_ == nullptr ? nullptr : history_->arrivers(cluster_, address);
    const bool same = other.warp == waiting.warp;
    const int habit = before == nullptr ? usual(other, address) : 0;
    for (const std::uint32_t pc : future(other, kArrivesAtMbarrier)) {
      const std::optional<int> match = named(waiting, other, pc);
      if (!match) continue;
      int score = (same ? 0 : 2) + habit + *match;
      if (before != nullptr && before->contains({other.warp->slot, pc})) {
        score += 8;
      } else if (before != nullptr && !before->empty()) {
        score -= 1;
      }
      // A warp that waits for the same is in the same position.
      if (other.group->wait == Wait::kMbarrier && other.group->key == address) score -= 6;
      all.push_back({node, pc, score});
    }
  }

  // Without a history, the engine knows which warps have arrived there before, if not where.
  int usual(const Node& node, std::uint32_t address) const {
    const MbarrierUsers& all = cluster_.async->mbarrier_users();
    const auto users = all.find(address);
    if (users == all.end() || users->second.arrivers.none()) return 0;
    return users->second.arrivers.test(node.warp->slot) ? 6 : -1;
  }

  // Whether some of the lanes would arrive at the object, with what their registers hold now.
  static bool points_at(const Node& node, const AddressOperand& at, std::uint32_t address, bool in_any_cta) {
    const std::uint32_t compared = in_any_cta ? kSharedOffsetMask : ~0u;
    for (std::uint32_t rest = node.group->mask; rest != 0; rest &= rest - 1) {
      const auto here = static_cast<std::uint32_t>(address_of(*node.warp, at, std::countr_zero(rest)));
      if (((here ^ address) & compared) == 0) return true;
    }
    return false;
  }

  // How well the instruction's operand goes with what is waited for; nothing if it is for something else.
  std::optional<int> named(const Node& waiting, const Node& node, std::uint32_t pc) const {
    const std::optional<AddressOperand> at = mbarrier_operand(*cluster_.program, pc);
    if (!at) return 0;
    // A register may hold the object by chance, the text is certain.
    const BarrierAddresses::Fit fit = addresses_.fit(waiting.group->pc, pc);
    if (fit == BarrierAddresses::Fit::kOther) return std::nullopt;
    const bool multicast = cluster_.program->effects[pc].multicast;
    const auto address = static_cast<std::uint32_t>(waiting.group->key);
    return fit == BarrierAddresses::Fit::kSame || points_at(node, *at, address, multicast) ? 4 : 0;
  }

  const Cluster& cluster_;
  const BarrierSanitizer* history_;
  BarrierAddresses addresses_;
  std::vector<Node> nodes_;
};

std::string who(const WaitLink& link) {
  return "CTA (" + std::to_string(link.cta[0]) + ", " + std::to_string(link.cta[1]) + ", " +
         std::to_string(link.cta[2]) + ") warp " + std::to_string(link.warp);
}

}  // namespace

std::vector<WaitLink> find_deadlock(const Cluster& cluster, const BarrierSanitizer* history) {
  return Search(cluster, history).run();
}

std::string describe(const std::vector<WaitLink>& chain) {
  std::string text;
  for (const WaitLink& link : chain) {
    text +=
        "\n  " + who(link) + " waits at PTX line " + std::to_string(link.ptx_line) +
        (link.source_file.empty() ? ""
                                  : " (" + link.source_file + ":" + std::to_string(link.source_line) + ")") +
        " " + link.waits + "; ";
    if (link.next < 0) {
      text += "nothing is left that could end that";
    } else {
      const WaitLink& next = chain[static_cast<std::size_t>(link.next)];
      const bool own = next.cta == link.cta && next.warp == link.warp;
      text += "that is for " + (own ? "other lanes of its own, " + hex(next.lanes) + "," : who(next)) +
              " to end, at PTX line " + std::to_string(link.next_line);
      if (&link == &chain.back()) text += ", which closes the circle";
    }
  }
  return text;
}

}  // namespace sglab::emu
