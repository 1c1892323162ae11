#include "machine/program/early_uses.hpp"

#include <algorithm>
#include <unordered_map>

#include "isa/table.hpp"
#include "machine/program/decoder.hpp"

namespace sglab::emu {
namespace {

bool fills_tensor_load(const Effects& e) {
  return e.act == Act::kTmemLoad;
}
bool fills_accumulators(const Effects& e) {
  return (e.releases & kIssuesWgmma) != 0;
}

class Scan {
 public:
  explicit Scan(const Program& program) : program_(program) {}

  std::vector<EarlyUse> run() {
    const auto& mentions = program_.mentions;
    for (std::size_t at = 0; at < mentions.size();) {
      const std::uint32_t pc = mentions[at].inst;
      std::size_t end = at;
      while (end < mentions.size() && mentions[end].inst == pc) ++end;
      pass(pc);
      visit(pc, at, end);
      at = end;
    }
    std::sort(found_.begin(), found_.end(),
              [](const EarlyUse& a, const EarlyUse& b) { return a.filler < b.filler; });
    return std::move(found_);
  }

 private:
  // What stands between the last instruction with registers and this one, itself included.
  void pass(std::uint32_t pc) {
    for (; seen_ <= pc; ++seen_) {
      if (late_.empty()) continue;
      const Effects& e = program_.effects[seen_];
      const bool joins = program_.code[seen_].body == join_;
      if (e.motion == Motion::kBranch || joins) late_.clear();
      if (e.act == Act::kFence && e.fence == FenceKind::kTcgenWaitLoad) forget(fills_tensor_load);
      if (e.act == Act::kWaitGroup && e.group == GroupKind::kWgmma) forget(fills_accumulators);
    }
  }

  void forget(bool (*fills)(const Effects&)) {
    std::erase_if(late_, [&](const auto& one) { return fills(program_.effects[one.second]); });
  }

  void visit(std::uint32_t pc, std::size_t at, std::size_t end) {
    const Effects& e = program_.effects[pc];
    const bool fills = fills_tensor_load(e) || fills_accumulators(e);
    if (late_.empty() && !fills) return;
    std::uint32_t copied = kNoIndex;
    for (std::size_t k = at; k < end && !fills_accumulators(e); ++k) {
      const Mention& m = program_.mentions[k];
      if (m.definition || m.predicate || m.field == kNoField) continue;
      const auto known = late_.find(m.place);
      if (known == late_.end()) continue;
      copied = known->second;
      if (e.taint != TaintRule::kPack) note(known->second, pc);
    }
    for (std::size_t k = at; k < end; ++k) {
      const Mention& m = program_.mentions[k];
      if (!m.definition || m.predicate || m.field == kNoField) continue;
      if (fills) {
        late_[m.place] = pc;
      } else if (copied != kNoIndex && e.taint == TaintRule::kPack) {
        late_[m.place] = copied;
      } else {
        late_.erase(m.place);
      }
    }
  }

  void note(std::uint32_t filler, std::uint32_t reader) {
    const bool known =
        std::any_of(found_.begin(), found_.end(), [&](const EarlyUse& one) { return one.filler == filler; });
    if (!known) found_.push_back({filler, reader});
  }

  const Program& program_;
  const Handler join_ = instruction_table().support.join;
  std::unordered_map<Ref, std::uint32_t> late_;  // places, and who fills them
  std::vector<EarlyUse> found_;
  std::uint32_t seen_ = 0;  // instructions that pass() has looked at
};

}  // namespace

std::vector<EarlyUse> find_early_uses(const Program& program) {
  const auto fills = [](const Effects& e) { return fills_tensor_load(e) || fills_accumulators(e); };
  if (std::none_of(program.effects.begin(), program.effects.end(), fills)) return {};
  return Scan(program).run();
}

}  // namespace sglab::emu
