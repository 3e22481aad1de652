// The message of a refusal, for tests that call the parsers of the tool.
#pragma once

#include "tool/options/parse.hpp"

#include <string>

namespace octet::tool {

// The message of the UsageError that `call` throws.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace octet::tool
