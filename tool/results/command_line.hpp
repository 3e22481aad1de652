// What a command line says. A row has one in its column Command, "octet bench gemm --shape 8x16x32
// ...", before which stands what the environment forced; a problem has one that begins with its
// operator, "gemm --shape 8x16x32 ...".
#pragma once

#include <string>
#include <string_view>

namespace octet::tool {

// "gemm" of "octet bench gemm --shape ..." and of "tools/peers.py --op gemm ..."; empty where the
// command names no operator.
std::string operator_of(const std::string& command);

// The value of an option; empty where it is not given.
std::string option_of(const std::string& command, std::string_view option);
bool has_option(const std::string& command, std::string_view option);
// The options of a problem except shape, dtype and device.
std::string other_options(const std::string& problem);

// The command without the options that say where, for how long and on which data it was run: the same
// of every run of a case.
std::string repeated_command(const std::string& command);
// What makes two rows of one shape and dtype on one device comparable: what the environment forced
// and the options, except those that say which case, where, for how long and on which data.
std::string settings_of(const std::string& command);
// "fp8 blockwise e4m3 grad-format=e4m3 1d prequantized": the options, except those that say which
// shape, where, for how long and with what it was run.
std::string problem_of(const std::string& command);

}  // namespace octet::tool
