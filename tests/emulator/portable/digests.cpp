// Runs kernels on the emulator's core, without Python, and prints their results' digests: what a host of
// another architecture computes can be held against what this one does.
//
// Arguments: folders that each hold kernel.ptx, with one entry whose parameters are pointers and a last u32,
// sizes.txt ("grid block count result-bytes", then each input's bytes) and inputs.bin.

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "machine/engine/machine.hpp"
#include "machine/front/parser.hpp"

namespace {

using namespace sglab;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// FNV-1a.
std::uint64_t digest(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

std::unique_ptr<emu::Program> only_kernel(const std::string& folder) {
  auto image = std::make_shared<emu::Image>(emu::parse_module(contents(folder + "/kernel.ptx"), folder));
  const auto& functions = image->module().functions;
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    if (functions[i].entry && functions[i].defined) return emu::decode_kernel(image, i);
  }
  throw std::runtime_error(folder + " has no kernel");
}

std::uint64_t run(const std::string& folder) {
  const std::unique_ptr<emu::Program> program = only_kernel(folder);
  std::istringstream sizes(contents(folder + "/sizes.txt"));
  const std::string inputs = contents(folder + "/inputs.bin");
  std::uint32_t grid, block, count, result_bytes, size;
  sizes >> grid >> block >> count >> result_bytes;
  std::vector<std::vector<std::uint8_t>> memory;
  for (std::size_t at = 0; sizes >> size; at += size)
    memory.emplace_back(inputs.begin() + at, inputs.begin() + at + size);
  memory.emplace_back(result_bytes, std::uint8_t{0x55});

  emu::LaunchConfig config;
  config.grid[0] = grid;
  config.block[0] = block;
  config.parameters.resize(program->parameter_bytes);
  for (std::size_t i = 0; i < program->parameters.size(); ++i) {
    std::uint8_t* const slot = config.parameters.data() + program->parameters[i].offset;
    if (i == memory.size()) {
      std::memcpy(slot, &count, sizeof count);
      break;
    }
    const auto address = reinterpret_cast<std::uint64_t>(memory[i].data());
    std::memcpy(slot, &address, sizeof address);
    config.allocations.push_back({address, address + memory[i].size(), "argument"});
  }
  emu::run_launch(*program, std::move(config), [] { return false; });
  return digest(memory.back());
}

}  // namespace

int main(int count, char** folders) {
  try {
    for (int i = 1; i < count; ++i)
      std::printf("%016llx\n", static_cast<unsigned long long>(run(folders[i])));
  } catch (const emu::LaunchFault& fault) {
    std::fprintf(stderr, "%s\n", fault.fault.message.c_str());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
