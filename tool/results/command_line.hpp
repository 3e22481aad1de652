// Reads command lines. The column Command of a row holds one, "octet bench gemm --shape 8x16x32
// ...", after any variables of the environment. The description of a problem begins with its
// operator, "gemm --shape 8x16x32 ...".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// "gemm" for "octet bench gemm --shape ..." and for "tools/peers.py --op gemm ..."; empty if the
// command names no operator.
std::string operator_of(const std::string& command);
// The name of the digest of the kernels that a command runs: its operator, with an ending where the kernels are others.
// - Products, gated-mlp and linear-cross-entropy: "_bf16" and "_f16"; "_whole" with scales of rows or tensors, "_fast" if not
//   promoted, "_mx" (of gemm "fp8_linear_whole" and so on); "_narrow" where one of the row's configurations is a narrow tile,
//   or where they are not known of layers that were drawn at random; "_by_name16" for 16-bit tiles that are run by name.
// - Casts: "quantize_lines", "quantize_mx", and with groups or a batch "quantize_experts", "gated-activation_experts".
// - FP8 outputs whose blocks are not of 128: "rms-norm_lines" and the like.
std::string digest_of(const std::string& command, const std::string& configuration = "");
inline constexpr const char* kNarrowDigest = "gemm_narrow";

// As a shell wants the word: "'/my tables/a.table'", in quotes only if it needs them.
std::string shell_word(const std::string& word);

// The value of an option; empty if it is not given.
std::string option_of(const std::string& command, std::string_view option);
bool has_option(const std::string& command, std::string_view option);
// The options and their values by name; flags have an empty value, the values of a repeated option
// are joined by commas.
std::map<std::string, std::string> options_of(const std::string& command);
// Those that define the problem: not shape, device, backend, baseline, seed or how long it ran.
// `said_elsewhere`: more options of the shape.
std::map<std::string, std::string> problem_options_of(
    const std::string& command, const std::vector<std::string_view>& said_elsewhere = {});
// Before the value, where it is a variable of the environment of a command.
inline constexpr std::string_view kTuningTable = "OCTET_TUNING_TABLE=";
// {"OCTET_GEMM_BACKEND=cublaslt"}: the variables of the environment before the program.
std::vector<std::string> environment_of(const std::string& command);
// The options of a problem except shape, dtype and device.
std::string other_options(const std::string& problem);

// The command without the options that say where, for how long and on which data it ran. It is the
// same for every run of a case, apart from its environment.
std::string repeated_command(const std::string& command);
std::string without_tuning_table(const std::string& command);
// Rows of the same shape and dtype on the same device are comparable if these are equal: the
// variables of the environment and the options, except those that say which case, where, for how
// long and on which data.
std::string settings_of(const std::string& command);
// "fp8 blockwise e4m3 grad-format=e4m3 1d prequantized": the options, except those that say which
// shape, where, for how long and with what it ran. `said_elsewhere`: more options of the shape.
std::string problem_of(const std::string& command,
                       const std::vector<std::string_view>& said_elsewhere = {});

}  // namespace octet::tool
