#include "machine/engine/machine.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace sglab::emu {

LaunchReport make_report(const Program& program, std::vector<std::uint64_t> executions) {
  LaunchReport report;
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    if (program.places[pc].line == 0) continue;  // added by the decoder
    report.by_class[static_cast<std::size_t>(program.code[pc].kind)] += executions[pc];
    report.warp_instructions += executions[pc];
  }
  report.executions = std::move(executions);
  return report;
}

LaunchReport run_launch(const Program& program, LaunchConfig config,
                        const std::function<bool()>& interrupted) {
  const auto start = std::chrono::steady_clock::now();
  const std::unique_ptr<Launch> launch = prepare_launch(program, std::move(config));
  const auto workers = static_cast<std::size_t>(
      std::clamp<std::uint64_t>(launch->cluster_total, 1, std::max(launch->config.threads, 1u)));
  std::vector<Tally> tallies(workers);
  std::vector<std::thread> threads;
  for (std::size_t k = 1; k < workers; ++k) {
    threads.emplace_back([&launch, &tallies, k] { work(*launch, tallies[k], nullptr); });
  }
  work(*launch, tallies[0], &interrupted);
  for (std::thread& thread : threads) thread.join();
  if (launch->fault != nullptr) throw LaunchFault(std::move(*launch->fault));

  std::vector<std::uint64_t> executions(program.code.size());
  std::int64_t running = 0;
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    for (const Tally& tally : tallies) running += tally.profile[pc];
    executions[pc] = static_cast<std::uint64_t>(running);
  }
  LaunchReport report = make_report(program, std::move(executions));
  report.output = std::move(launch->output);
  // There is one worker then.
  if (launch->sanitizer != nullptr) report.tally = std::make_shared<const Tally>(std::move(tallies[0]));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace sglab::emu
