#pragma once

namespace sglab::emu {

// Float letters share their width's registers.
inline char storage(char letter) {
  return letter == 'f' ? 'w' : letter == 'd' ? 'l' : letter == 'P' ? 'p' : letter;
}

}  // namespace sglab::emu
