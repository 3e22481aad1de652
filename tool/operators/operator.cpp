#include "tool/operators/operator.hpp"

#include "tool/options/op_options.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/command_line.hpp"

#include "dispatch/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>

namespace octet::tool {

std::string Case::shape() const { return fmt::format("{}", fmt::join(extents, "x")); }

std::string Case::title() const { return name == "shape" ? shape() : name + " " + shape(); }

double Case::work() const {
  double product = 1;
  for (const std::int64_t extent : extents) product *= static_cast<double>(extent);
  return product;
}

std::vector<std::string> Operator::chosen_operators() const { return {with_underscores(name())}; }

std::string Operator::bench_command(const Case& one, const TimingOptions& timing) const {
  return forced_backends() + "octet bench " + one.arguments + data_arguments() + bench_arguments() +
         timing_arguments(timing);
}

std::string Operator::check_command(const Case& one) const {
  return forced_backends() + "octet check " + one.arguments + data_arguments();
}

// The problem and the options of an operator have no words with spaces.
std::vector<std::string> Operator::bench_words(const Case& one) const {
  std::istringstream problem(one.arguments);
  std::vector<std::string> words{std::istream_iterator<std::string>(problem), {}};
  const std::vector<std::string> data = data_words();
  words.insert(words.end(), data.begin(), data.end());
  std::istringstream own(bench_arguments());
  words.insert(words.end(), std::istream_iterator<std::string>(own), {});
  return words;
}

// --backend ... --threads ... --seed ... --distribution ..., without those at their defaults.
std::vector<std::string> Operator::data_words() const {
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  if (!data_.backend.empty()) add("--backend", data_.backend);
  if (!data_.quantize_backend.empty()) add("--quantize-backend", data_.quantize_backend);
  if (data_.threads != 0) add("--threads", fmt::to_string(data_.threads));
  if (data_.seed != 1) add("--seed", fmt::to_string(data_.seed));
  if (data_.distribution != Distribution::normal) {
    add("--distribution", distribution_name(data_.distribution));
  }
  return words;
}

std::string Operator::data_arguments() const {
  std::string text;
  for (const std::string& word : data_words()) text += " " + shell_word(word);
  return text;
}

void Operator::add_op_examples(CLI::App& app, bool timed) const {
  std::vector<std::string> lines;
  for (const char* options : examples(timed)) {
    lines.push_back(fmt::format("octet {} {} {}", timed ? "bench" : "check", name(), options));
  }
  if (timed) lines.back() += " -o rows.csv";
  add_examples(app, lines);
}

std::string Operator::forced_backends() const {
  std::string forced;
  for (const std::string& op : chosen_operators()) {
    const std::string variable = backend_variable(op);
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0') {
      forced += fmt::format("{}={} ", variable, shell_word(value));
    }
  }
  if (const std::string table = tuning_table(); !table.empty()) {
    // One table has one text, wherever the command was given.
    const auto path = std::filesystem::absolute(table).lexically_normal();
    forced += fmt::format("OCTET_TUNING_TABLE={} ", shell_word(path.string()));
  }
  return forced;
}

void ShapeOperator::add_options(CLI::App& app, bool timed) {
  option_group(app, kCaseOptions);
  add_texts(app, "--shape", common_.shapes, shape_form(),
            with_default(fmt::format("{} Repeat it for several shapes.", shape_help()),
                         "shapes of real models"));
  option_group(app, kNumericOptions);
  add_dtype_option(app);
  add_own_options(app, timed);
  option_group(app, kMachineOptions);
  add_device(app, common_.device);
  add_text(
      app, "--backend", data_.backend, "NAME",
      with_default("Implementation; octet ops lists them.", "the first that supports the case"));
  add_data_options(app, data_);
  add_op_examples(app, timed);
}

void ShapeOperator::add_dtype_option(CLI::App& app) {
  add_dtype(app, "--dtype", common_.dtype, kFloats,
            with_default("Data type of the tensors.", kUsualDtype));
}

std::vector<ShapeCase> ShapeOperator::shapes_on(Device device) const {
  if (common_.shapes.empty()) {
    return embedded_shape_cases(name(), shape_form(), device.type == DeviceType::cuda);
  }
  std::vector<ShapeCase> shapes;
  for (const std::string& text : common_.shapes) {
    shapes.push_back({"shape", parse_extents("--shape", text, shape_form()), {}});
  }
  return shapes;
}

std::vector<Case> ShapeOperator::chosen_cases() const {
  return on_best_device(
      common_.device, [&](Device device) { return cases_on(device); },
      [&](const std::vector<Case>& cases) {
        for (const Case& one : cases) one.plan(data_options());
      });
}

// Each is defined in its operator's file.
std::unique_ptr<Operator> make_gemm_operator();
std::unique_ptr<Operator> make_quantize_operator();
std::unique_ptr<Operator> make_dequantize_operator();
std::unique_ptr<Operator> make_repack_operator();
std::unique_ptr<Operator> make_rms_norm_operator();
std::unique_ptr<Operator> make_rope_operator();
std::unique_ptr<Operator> make_rms_norm_rope_operator();
std::unique_ptr<Operator> make_gated_activation_operator();
std::unique_ptr<Operator> make_gated_mlp_operator();
std::unique_ptr<Operator> make_linear_cross_entropy_operator();
std::unique_ptr<Operator> make_adamw_operator();
std::unique_ptr<Operator> make_grouped_gemm_operator();
std::unique_ptr<Operator> make_moe_route_operator();
std::unique_ptr<Operator> make_moe_maps_operator();
std::unique_ptr<Operator> make_moe_permute_operator();
std::unique_ptr<Operator> make_moe_unpermute_operator();
std::unique_ptr<Operator> make_moe_mlp_operator();
std::unique_ptr<Operator> make_attention_operator();

const std::vector<MakeOperator>& operators() {
  static const std::vector<MakeOperator> makers{
      make_gemm_operator,          make_quantize_operator,
      make_dequantize_operator,    make_repack_operator,
      make_rms_norm_operator,      make_rope_operator,
      make_rms_norm_rope_operator, make_gated_activation_operator,
      make_gated_mlp_operator,     make_linear_cross_entropy_operator,
      make_adamw_operator,         make_grouped_gemm_operator,
      make_moe_route_operator,     make_moe_maps_operator,
      make_moe_permute_operator,   make_moe_unpermute_operator,
      make_moe_mlp_operator,       make_attention_operator,
  };
  return makers;
}

}  // namespace octet::tool
