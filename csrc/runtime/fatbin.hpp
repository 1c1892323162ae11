// PTX out of the "fat binaries" that nvcc puts into host programs.
#pragma once

#include <string>
#include <vector>

namespace sglab::runtime {

struct FatbinPtx {
  int capability;  // 90 for sm_90
  std::string text;
};

struct Fatbin {
  std::vector<FatbinPtx> ptx;
  int machine_code_entries = 0;  // SASS, which only a GPU can run
  std::string problem;           // why an entry could not be read
};

// `wrapper` is what __cudaRegisterFatBinary gets.
Fatbin read_fatbin(const void* wrapper);
// What cuModuleLoadData gets: PTX as text, a fat binary or its wrapper, or machine code.
Fatbin read_image(const void* image);

}  // namespace sglab::runtime
