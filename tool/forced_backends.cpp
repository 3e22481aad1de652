#include "forced_backends.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace octet::tool {
namespace {

// The operators whose implementations are chosen where this one is run.
std::vector<std::string> operators_in(const std::string& op) {
  if (op == "gemm") return {"gemm", "quantize"};  // a linear layer
  if (op == "gated-mlp") return {"gemm", "quantize", "gated-activation"};
  return {op};
}

// "OCTET_RMS_NORM_BACKEND" of "rms-norm"
std::string variable_name(const std::string& op) {
  std::string name = "OCTET_";
  for (const char c : op) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name + "_BACKEND";
}

}  // namespace

std::string with_forced_backends(const std::string& command) {
  std::istringstream words(command);
  std::string op;
  words >> op >> op >> op;  // octet bench OP
  std::string forced;
  for (const std::string& part : operators_in(op)) {
    const std::string variable = variable_name(part);
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0') forced += fmt::format("{}={} ", variable, value);
  }
  return forced + command;
}

}  // namespace octet::tool
