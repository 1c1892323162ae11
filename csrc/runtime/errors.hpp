#pragma once

#include "runtime/abi.hpp"

namespace sglab::runtime {

struct ErrorWords {
  Status status;
  const char* runtime_name;
  const char* driver_name;  // null: the driver does not know this one
  const char* text;
};

// Null: there is no error of this number.
const ErrorWords* words_for(Status status);

}  // namespace sglab::runtime
