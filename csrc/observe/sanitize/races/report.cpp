#include "machine/engine/cluster.hpp"
#include "observe/sanitize/races/judgement.hpp"
#include "observe/sanitize/races/updates.hpp"

// What a race is called, and which party caused it.
namespace sglab::emu::races {
namespace {

const char* memory_name(Space space) {
  return space == Space::kGlobal ? "global" : space == Space::kShared ? "shared" : "tensor";
}

struct Hint {
  const char* kind;
  const char* why;
};

// What observes the completion of an asynchronous access.
Hint missing_completion(Role role) {
  switch (role) {
    case Role::kCopy:
      return {"missing_mbarrier_wait", "no thread has waited for the mbarrier phase that the copy completes"};
    case Role::kGroupedRead:
      return {"missing_bulk_wait", "cp.async.bulk.wait_group.read is missing between"};
    case Role::kGroupedWrite:
      return {"missing_bulk_wait", "cp.async.bulk.wait_group is missing between"};
    case Role::kCpAsync:
      return {"missing_cp_async_wait", "cp.async.wait_group is missing between"};
    case Role::kWgmma:
      return {"missing_wgmma_wait", "wgmma.wait_group is missing between"};
    case Role::kTensor:
      return {"missing_commit_wait", "tcgen05.commit and a wait for its mbarrier are missing between"};
    case Role::kTensorLoad:
      return {"missing_tensor_wait", "tcgen05.wait::ld is missing between"};
    case Role::kTensorStore:
      return {"missing_tensor_wait", "tcgen05.wait::st is missing between"};
    case Role::kThread:
      break;
  }
  return {"", ""};
}

}  // namespace

Party party_of(const Record& record, std::uint32_t lane) {
  Party party;
  party.cta = record.cta;
  party.warp = record.warp;
  party.lanes = lane != kNoLane && record.role == Role::kThread ? 1u << lane : record.lanes;
  party.pc = record.pc;
  party.position = record.position;
  party.asynchronous =
      record.role != Role::kThread && record.role != Role::kTensorLoad && record.role != Role::kTensorStore;
  return party;
}

void Judgement::race(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane,
                     const View& view) {
  const bool issue_ordered = view.seen.covers(earlier.issue_slot, earlier.issue_clock);
  const bool tensor = space == Space::kReg;
  if (tensor && tensor_found != nullptr &&
      (tensor_found->covers(earlier.slot, earlier.clock) ||
       tensor_found->covers(earlier.slot + 1, earlier.clock))) {
    return report(earlier, earlier_writes, earlier_lane, "missing_tensor_fence",
                  "tcgen05.fence::after_thread_sync is missing after the synchronisation");
  }
  if (tensor && !issue_ordered && view.weak.covers(earlier.slot, earlier.clock)) {
    return report(
        earlier, earlier_writes, earlier_lane, "missing_tensor_fence",
        "tcgen05.fence::before_thread_sync is missing before the synchronisation, which is relaxed");
  }
  if (overtaken(earlier)) return report_overtaken(earlier, earlier_writes, earlier_lane);
  if (earlier.role == Role::kTensor && record_.role == Role::kTensor && issue_ordered) {
    return report(
        earlier, earlier_writes, earlier_lane, "missing_tensor_fence",
        "two threads issue to one place without tcgen05.fence::before_thread_sync and ::after_thread_sync");
  }
  if (earlier.role != Role::kThread && issue_ordered) {
    const Hint hint = missing_completion(earlier.role);
    return report(earlier, earlier_writes, earlier_lane, hint.kind, hint.why);
  }
  if (view.weak.covers(earlier.slot, earlier.clock) || (record_.strong && earlier.strong)) {
    return report(earlier, earlier_writes, earlier_lane, "weak_synchronisation",
                  "what synchronises the two is relaxed or of too narrow a scope");
  }
  if (plain_read_beside_atomic(earlier, earlier_writes))
    return report_plain_read(earlier, earlier_writes, earlier_lane);
  if (both_update(earlier)) return report_updates(earlier, earlier_writes, earlier_lane);
  if (earlier.role == Role::kThread && same_warp(earlier) && views_.size() == 1) {
    return report(earlier, earlier_writes, earlier_lane, "missing_warp_sync", kMissingWarpSync);
  }
  const char* const kind = !writes          ? "read_after_write_race"
                           : earlier_writes ? "write_after_write_race"
                                            : "write_after_read_race";
  const bool in_one_cta = space == Space::kShared && earlier.role == Role::kThread &&
                          record_.role == Role::kThread && earlier.cluster == record_.cluster &&
                          actor_.warp->cluster->ctas.size() == 1;
  report(
      earlier, earlier_writes, earlier_lane, kind,
      in_one_cta
          ? "nothing orders the two; a barrier (__syncthreads, cuda.syncthreads, bar.sync) between them would"
          : "nothing orders the two");
}

// A plain read beside an atomic, as before a compare-and-swap loop: undefined by the ISA's letter, and
// harmless as long as only the atomic relies on the value.
bool Judgement::plain_read_beside_atomic(const Record& earlier, bool earlier_writes) const {
  return record_.role == Role::kThread && earlier.role == Role::kThread && record_.strong != earlier.strong &&
         (record_.strong ? !earlier_writes : !writes);
}

void Judgement::report_plain_read(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane) {
  report(earlier, earlier_writes, earlier_lane, "plain_read_beside_atomic",
         "nothing orders the two, and only one of them is atomic or has an order");
}

// Whether the two are threads that each read a place, change what they find and write it back. No fence or
// barrier between the two instructions mends that.
bool Judgement::both_update(const Record& earlier) const {
  if (record_.role != Role::kThread || earlier.role != Role::kThread) return false;
  const Program& program = *actor_.warp->program;
  return is_part_of_update(program, record_.pc) && is_part_of_update(program, earlier.pc);
}

void Judgement::report_updates(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane) {
  report(earlier, earlier_writes, earlier_lane, "lost_update",
         "each reads the place, changes the value and writes it back, so that an update is lost; an atomic "
         "(atomicAdd, tl.atomic_add, cuda.atomic.add, atom) does that in one step");
}

// Whether the thread knew of this operation's issue and did not wait for its completion, and the machine has
// only carried it out late. (It may have learned of it since; but then, mostly, by waiting.)
bool Judgement::overtaken(const Record& earlier) const {
  const bool at_once = earlier.role == Role::kThread || earlier.role == Role::kTensorLoad ||
                       earlier.role == Role::kTensorStore;
  if (record_.role == Role::kThread || !at_once || threads == nullptr) return false;
  if (earlier.issue_slot == record_.issue_slot) return earlier.issue_clock > record_.issue_clock;
  const View* const known = threads->knowledge(earlier.issue_slot);
  return known != nullptr && known->seen.covers(record_.issue_slot, record_.issue_clock);
}

Finding Judgement::finding(const char* kind, const char* why) const {
  Finding made;
  made.detector = "races";
  made.kind = kind;
  made.message = why;
  made.space = memory_name(space);
  made.address = space == Space::kReg ? address + word : address / 4 * 4 + 4 * word;
  made.bytes = 4;
  return made;
}

void Judgement::report(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane,
                       const char* kind, const char* why) {
  Finding made = finding(kind, why);
  made.error = made.kind != "plain_read_beside_atomic" && made.kind != "unwaited_tensor_load";
  made.message = std::string(memory_name(space)) + " memory is " + (writes ? "written" : "read") +
                 " while another party " + (earlier_writes ? "writes" : "reads") + " it: " + why;
  made.at = party(actor_);
  if (lane != kNoLane && record_.role == Role::kThread) made.at.lanes = 1u << lane;
  made.other = party_of(earlier, earlier_lane);
  made.other_did = earlier_writes ? "wrote it" : "read it";
  findings_.report(std::move(made));
}

// The thread's access is what went wrong, although it came first here.
void Judgement::report_overtaken(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane) {
  const Hint hint = missing_completion(record_.role);
  Finding made = finding(hint.kind, hint.why);
  made.message = std::string(memory_name(space)) + " memory is " + (earlier_writes ? "written" : "read") +
                 " while another party " + (writes ? "writes" : "reads") + " it: " + hint.why;
  made.at = party_of(earlier, earlier_lane);
  made.other = party(actor_);
  made.other_did = writes ? "wrote it" : "read it";
  findings_.report(std::move(made));
}

}  // namespace sglab::emu::races
