#pragma once

#include <memory>

#include "emulator/sanitize/observer.hpp"

namespace sglab::emu {

// The sanitizers; Sanitizer::Sanitizer attaches those that a launch wants.

}  // namespace sglab::emu
