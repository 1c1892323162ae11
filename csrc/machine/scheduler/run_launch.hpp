#pragma once

#include <functional>
#include <vector>

#include "machine/engine/launch.hpp"

namespace sglab::emu {

// Runs a launch on config.threads host threads, the caller's among them, and returns when it is over.
// `interrupted` is asked now and then on the caller's thread whether to stop. Throws LaunchFault.
LaunchReport run_launch(const Program& program, LaunchConfig config,
                        const std::function<bool()>& interrupted);

// What follows from how often each instruction ran.
LaunchReport make_report(const Program& program, std::vector<std::uint64_t> executions);

// Ends a launch that has executed more than its limit, or, if it goes round in circles (`circle`), never
// ends. `fault`: where, if that is known.
[[noreturn]] void raise_livelock(const Launch& launch, std::uint64_t executed, bool circle,
                                 const Tally& tally, const std::vector<const Cluster*>& running, Fault fault);

// What a launch fails with when an allocation of the host's does.
Fault out_of_memory(const Launch& launch);

// Ends a launch at its user's request.
[[noreturn]] void raise_interrupted(const Launch& launch);

}  // namespace sglab::emu
