// Options of the command line. Every bad value gets a one-line message that says what was wanted.
#pragma once

#include "tool/options/parse.hpp"

#include <octet/device.hpp>
#include <octet/dtype.hpp>
#include <octet/quantized.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace octet::tool {

void add_whole(CLI::App& app, const std::string& name, std::int64_t& value, std::int64_t least,
               std::int64_t most, const std::string& help);
void add_whole(CLI::App& app, const std::string& name, std::optional<std::int64_t>& value,
               std::int64_t least, std::int64_t most, const std::string& help);
void add_wholes(CLI::App& app, const std::string& name, std::vector<std::int64_t>& values,
                std::int64_t least, std::int64_t most, const std::string& help);
// A finite number of at least 0.
void add_real(CLI::App& app, const std::string& name, std::optional<double>& value,
              const std::string& help);
// The same, within the range of f32.
void add_f32(CLI::App& app, const std::string& name, std::optional<float>& value,
             const std::string& help);
void add_text(CLI::App& app, const std::string& name, std::string& value, const std::string& type,
              const std::string& help);
// May be repeated, with one value each time.
void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& values,
               const std::string& type, const std::string& help);
// A required positional argument.
void add_argument(CLI::App& app, const std::string& name, std::string& value,
                  const std::string& help);
void add_device(CLI::App& app, std::optional<Device>& value);
void add_dtype(CLI::App& app, const std::string& name, std::optional<Dtype>& value,
               const std::vector<Dtype>& choices, const std::string& help);
void add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& help);
// One of `choices`.
void add_choice(CLI::App& app, const std::string& name, std::string& value,
                const std::vector<std::string>& choices, const std::string& help);

// Explains a parse error of CLI11 in one line.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace octet::tool
