#include "tool/bench/forced_backends.hpp"

#include "dispatch/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace octet::tool {
namespace {

// The operators, as the library names them, whose implementations are chosen where this one is run.
std::vector<std::string> operators_in(std::string op) {
  if (op == "gemm") return {"gemm", "quantize"};  // a linear layer
  if (op == "gated-mlp") return {"gemm", "quantize", "gated_activation"};
  std::replace(op.begin(), op.end(), '-', '_');
  return {op};
}

}  // namespace

std::string with_forced_backends(const std::string& command) {
  std::istringstream words(command);
  std::string op;
  words >> op >> op >> op;  // octet bench OP
  std::string forced;
  for (const std::string& part : operators_in(op)) {
    const std::string variable = backend_variable(part);
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0') forced += fmt::format("{}={} ", variable, value);
  }
  return forced + command;
}

}  // namespace octet::tool
