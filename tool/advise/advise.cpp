// octet advise: what each precision costs and gains for one linear layer. Every figure says whether it
// was measured here, comes from published results or was calculated.
#include "tool/advise/measured.hpp"
#include "tool/advise/precisions.hpp"
#include "tool/advise/published.hpp"
#include "tool/bench/headline.hpp"
#include "tool/console.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/options.hpp"
#include "tool/options/timing_options.hpp"
#include "tool/progress.hpp"
#include "tool/results/json_rows.hpp"
#include "tool/results/provenance.hpp"
#include "tool/results/stored_results.hpp"

#include "device/cuda_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace octet::tool {
namespace {

constexpr double kUsualMaxSeconds = 60;

struct AdviseOptions {
  std::vector<std::string> shapes;
  std::optional<Device> device;
  std::string gpu;  // advise for a GPU that may not be here
  bool no_measure = false;
  std::optional<double> max_seconds;
  std::string output;
  std::string json;
  bool wide = false;
};

// For whom the advice is: a device that is here, or a GPU by its name.
struct Target {
  std::optional<Device> device;
  std::string gpu;  // "NVIDIA H200"; empty: the CPU

  bool on_cpu() const { return gpu.empty(); }
  std::string text() const { return on_cpu() ? "cpu" : gpu; }
};

// One precision for one layer.
struct Advice {
  const Precision* precision = nullptr;
  LayerShape shape;
  LayerCost cost;
  Figure saved_bytes;
  Figure step_tflops;
  Figure step_ratio;  // the step's time of bf16 over that of this precision
  std::vector<std::string> notes;
};

LayerShape parse_layer(const std::string& text) {
  const std::vector<std::int64_t> extents = parse_extents("--shape", text, "MxNxK");
  return {extents[0], extents[1], extents[2]};
}

// The GPU whose name has this in it.
std::string gpu_named(const std::string& part) {
  const std::vector<std::string> gpus = published_gpus();
  const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const std::string& gpu) {
    return std::search(gpu.begin(), gpu.end(), part.begin(), part.end(), [](char a, char b) {
             return std::tolower(static_cast<unsigned char>(a)) ==
                    std::tolower(static_cast<unsigned char>(b));
           }) != gpu.end();
  });
  if (found == gpus.end()) {
    refuse_usage("--gpu {}: no published results of such a GPU are built in; there are: {}", part,
                 gpus.empty() ? "none" : fmt::format("{}", fmt::join(gpus, ", ")));
  }
  return *found;
}

Target target_of(const AdviseOptions& options) {
  if (!options.gpu.empty()) {
    if (options.device) refuse_usage("--device is of this machine, --gpu need not be; give one");
    return {std::nullopt, gpu_named(options.gpu)};
  }
  const Device device = best_device(options.device);
  if (device.type == DeviceType::cpu) return {device, ""};
  if (device.index >= cuda::device_count()) {
    refuse_usage("--device {}: this machine has {}", name(device),
                 counted(static_cast<std::size_t>(cuda::device_count()), "CUDA device"));
  }
  return {device, cuda::properties(device.index).name};
}

void fill(Figure& figure, const Figure& other) {
  if (!figure.known()) figure = other;
}

void fill(LayerCost& cost, const LayerCost& other) {
  // Times of one source belong together.
  if (!cost.forward_seconds.known()) {
    cost.forward_seconds = other.forward_seconds;
    cost.backward_seconds = other.backward_seconds;
  }
  fill(cost.cast_seconds, other.cast_seconds);
  fill(cost.snr_db, other.snr_db);
}

// A figure made of two: no better than the worse of them.
Figure combined(double value, const Figure& a, const Figure& b) {
  return a.known() && b.known() ? Figure{value, std::max(a.source, b.source)} : Figure{};
}

Figure step_seconds(const LayerCost& cost) {
  return combined(cost.forward_seconds.value + cost.backward_seconds.value, cost.forward_seconds,
                  cost.backward_seconds);
}

// The times of a layer at the rate of its sample. What casts take of the sample is mostly noise.
LayerCost scaled(const LayerCost& sample, const LayerShape& from, const LayerShape& to) {
  const double products = to.forward_operations() / from.forward_operations();
  const auto times = [](const Figure& figure, double factor) {
    return figure.known() ? Figure{figure.value * factor, Source::calculated} : Figure{};
  };
  return {times(sample.forward_seconds, products),
          times(sample.backward_seconds, products),
          {},
          sample.snr_db};
}

// --max-seconds. On the CPU every precision of every layer has the same share of it, so that mostly
// all of a layer are measured or all are scaled up.
struct Limit {
  RunClock clock;
  double share;

  Limit(double max_seconds, std::size_t layers)
      : clock(max_seconds),
        share(max_seconds / static_cast<double>(layers * precisions().size())) {}
};

// On the CPU a sample comes first: it says how long the whole layer would take.
void measure_on_cpu(Advice& advice, Device device, const Limit& limit) {
  const double before = *limit.clock.seconds_left();
  const LayerShape sample = sample_of(advice.shape);
  const MeasuredLayer sampled = measure_layer(*advice.precision, sample, device);
  if (!sampled.refusal.empty()) advice.notes.push_back(sampled.refusal);
  if (sample == advice.shape || !sampled.refusal.empty()) {
    if (sample == advice.shape) advice.cost = sampled.cost;
    return;
  }
  const double expected =
      expected_seconds(sampled, advice.shape.forward_operations() / sample.forward_operations());
  const double left = *limit.clock.seconds_left();
  if (expected > std::min(limit.share - (before - left), left)) {
    advice.cost = scaled(sampled.cost, sample, advice.shape);
    advice.notes.push_back(fmt::format(
        "times at the rate of {}, measured here: the whole layer would take more than its share of "
        "--max-seconds, {:.1f} s; casts are too small a part of it to tell",
        sample.text(), limit.share));
    return;
  }
  const MeasuredLayer whole = measure_layer(*advice.precision, advice.shape, device);
  if (!whole.refusal.empty()) advice.notes.push_back(whole.refusal);
  advice.cost = whole.cost;
}

void measure(Advice& advice, Device device, const Limit& limit) {
  if (limit.clock.is_over()) {
    advice.notes.emplace_back("not measured: --max-seconds reached");
    return;
  }
  if (device.type == DeviceType::cpu) return measure_on_cpu(advice, device, limit);
  const MeasuredLayer layer = measure_layer(*advice.precision, advice.shape, device);
  if (!layer.refusal.empty()) advice.notes.push_back(layer.refusal);
  advice.cost = layer.cost;
}

Advice advise_on(const Precision& precision, const LayerShape& shape, const Target& target,
                 const AdviseOptions& options, const Limit& limit) {
  Advice advice{&precision, shape, {}, {saved_bytes(precision, shape), Source::calculated},
                {},         {},    {}};
  if (target.device && !options.no_measure) {
    measure(advice, *target.device, limit);
  }
  if (!target.on_cpu() && !(advice.cost.forward_seconds.known() && advice.cost.snr_db.known())) {
    if (const auto published = published_layer(precision, shape, target.gpu)) {
      fill(advice.cost, published->cost);
      advice.notes.push_back(fmt::format(
          "published: the rates of {}{}", published->layer,
          published->other_kernels ? ", measured with other kernels than this build has" : ""));
    }
  }
  if (!target.on_cpu()) fill(advice.cost, calculated_cost(precision, shape, target.gpu));
  const Figure step = step_seconds(advice.cost);
  advice.step_tflops = {3 * shape.forward_operations() / step.value / 1e12, step.source};
  if (!step.known()) advice.step_tflops = {};
  return advice;
}

void add_ratios(std::vector<Advice>& advice) {
  const Figure bf16 = step_seconds(advice.front().cost);
  for (Advice& one : advice) {
    const Figure step = step_seconds(one.cost);
    one.step_ratio = combined(bf16.value / step.value, bf16, step);
  }
}

// Rows for a file or a program: every figure with its source beside it.

const bench::Row& header() {
  static const bench::Row row{"M",
                              "N",
                              "K",
                              "Device",
                              "Precision",
                              "Forward Time (ms)",
                              "Forward Source",
                              "Backward Time (ms)",
                              "Backward Source",
                              "Casts Time (ms)",
                              "Casts Source",
                              "Combined Step TFLOPS",
                              "Step Source",
                              "Step Ratio to bf16",
                              "Step Ratio Source",
                              "Saved Bytes",
                              "Saved Bytes Source",
                              "SNR (dB)",
                              "SNR Source",
                              "Note",
                              "Command"};
  return row;
}

void append_figure(bench::Row& row, const Figure& figure, double unit = 1) {
  row.push_back(bench::number(figure.value / unit));
  row.emplace_back(name(figure.source));
}

bench::Row row_of(const Advice& advice, const Target& target) {
  constexpr double kMilli = 1e-3;
  const LayerShape& shape = advice.shape;
  bench::Row row{std::to_string(shape.m), std::to_string(shape.n), std::to_string(shape.k),
                 target.text(), advice.precision->name};
  append_figure(row, advice.cost.forward_seconds, kMilli);
  append_figure(row, advice.cost.backward_seconds, kMilli);
  append_figure(row, advice.cost.cast_seconds, kMilli);
  append_figure(row, advice.step_tflops);
  append_figure(row, advice.step_ratio);
  row.push_back(fmt::format("{:.0f}", advice.saved_bytes.value));
  row.emplace_back(name(advice.saved_bytes.source));
  append_figure(row, advice.cost.snr_db);
  row.push_back(fmt::format("{}", fmt::join(advice.notes, "; ")));
  row.push_back(fmt::format("octet bench gemm {} --shape {}",
                            fmt::join(advice.precision->options, " "), shape.text()));
  return row;
}

// For a person: a letter behind a figure says where it comes from.

std::string cell(const Figure& figure, const bench::Unit& unit) {
  if (!figure.known()) return "-";
  return fmt::format("{} {}", unit.text(figure.value), name(figure.source)[0]);
}

bench::Unit unit_of(const char* base, const std::vector<Advice>& advice,
                    Figure (*figure)(const Advice& advice)) {
  std::vector<double> values;
  values.reserve(advice.size());
  for (const Advice& one : advice) values.push_back(figure(one).value);
  return bench::fitting_unit(base, values);
}

Figure in_ms(Figure seconds) { return {seconds.value * 1e3, seconds.source}; }

void print_legend(const std::vector<Advice>& advice) {
  std::vector<Source> used;
  for (const Advice& one : advice) {
    for (const Figure& figure : {one.cost.forward_seconds, one.cost.cast_seconds, one.cost.snr_db,
                                 one.saved_bytes, one.step_ratio}) {
      if (figure.known()) used.push_back(figure.source);
    }
  }
  std::vector<std::string> words;
  for (const Source source : {Source::measured, Source::published, Source::calculated}) {
    if (std::find(used.begin(), used.end(), source) == used.end()) continue;
    words.push_back(fmt::format("{}: {}", name(source)[0], name(source)));
  }
  fmt::print("{}\n", fmt::join(words, ", "));
  fmt::print(
      "casts: within forward and backward; beside bf16: its step's time over this one's; "
      "saved: kept for backward beside the weights; SNR: the least of y, dx and dw\n");
}

// Each note once, with the precisions it is about.
void print_notes(const std::vector<Advice>& advice) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;
  for (const Advice& one : advice) {
    for (const std::string& note : one.notes) {
      auto same = std::find_if(notes.begin(), notes.end(),
                               [&](const auto& known) { return known.first == note; });
      if (same == notes.end()) same = notes.insert(notes.end(), {note, {}});
      same->second.emplace_back(one.precision->name);
    }
  }
  for (const auto& [note, names] : notes) {
    fmt::print("{}: {}\n", fmt::join(names, ", "), printable(note));
  }
}

void print_advice(const std::vector<Advice>& advice, bool wide) {
  const bench::Unit ms =
      unit_of("ms", advice, [](const Advice& one) { return in_ms(one.cost.forward_seconds); });
  const bench::Unit rate =
      unit_of("TFLOPS", advice, [](const Advice& one) { return one.step_tflops; });
  const bench::Unit plain{"", 1};
  const bench::Unit megabytes{"MB", 1e-6};
  std::vector<bench::Row> table{{advice.front().shape.text(), "forward " + ms.name, "backward",
                                 "casts", "step " + rate.name, "beside bf16", "saved MB",
                                 "SNR dB"}};
  for (const Advice& one : advice) {
    table.push_back({one.precision->name, cell(in_ms(one.cost.forward_seconds), ms),
                     cell(in_ms(one.cost.backward_seconds), ms),
                     cell(in_ms(one.cost.cast_seconds), ms), cell(one.step_tflops, rate),
                     cell(one.step_ratio, plain), cell(one.saved_bytes, megabytes),
                     cell(one.cost.snr_db, plain)});
  }
  print_table(table, 1, wide);
}

std::string headline(const Target& target) {
  if (target.device) return machine_headline({{*target.device, "octet advise"}}, 0);
  return fmt::format("{} · {}, not this machine", version_text(), target.gpu);
}

int advise(const AdviseOptions& options) {
  if (options.shapes.empty()) {
    refuse_usage("--shape is required: The layer, MxNxK: tokens, output and input features");
  }
  TimingOptions files;
  files.output = options.output;
  files.json = options.json;
  check_timing_options(files);
  const ReplacedTable table(options.output, header(), "advice of octet");
  std::vector<LayerShape> shapes;
  for (const std::string& text : options.shapes) shapes.push_back(parse_layer(text));
  const Target target = target_of(options);
  JsonFile json(options.json);  // takes stdout for itself if it is "-"
  fmt::print("{}\n", printable(headline(target)));
  const Limit limit(options.max_seconds.value_or(kUsualMaxSeconds), shapes.size());
  std::vector<bench::Row> rows;
  for (const LayerShape& shape : shapes) {
    std::vector<Advice> advice;
    Progress progress(std::vector<double>(precisions().size(), 1));
    for (const Precision& precision : precisions()) {
      progress.show(advice.size(), fmt::format("{} {}", precision.name, shape.text()));
      progress.phase("measuring", true);
      advice.push_back(advise_on(precision, shape, target, options, limit));
    }
    progress.clear();
    add_ratios(advice);
    print_advice(advice, options.wide);
    print_legend(advice);
    print_notes(advice);
    for (const Advice& one : advice) rows.push_back(row_of(one, target));
  }
  table.write(rows);
  json.write("advise", header(), rows);
  return 0;
}

}  // namespace

void add_advise(CLI::App& octet, Chosen& chosen) {
  CLI::App& app =
      add_command(octet, "advise",
                  "What each precision costs and gains for a linear layer: time, casts, "
                  "memory and error, measured here, published or calculated.");
  const auto options = std::make_shared<AdviseOptions>();
  add_texts(app, "--shape", options->shapes, "MxNxK",
            "A layer of M tokens, N output features and K input features. Repeat it for several "
            "layers.");
  add_device(app, options->device);
  add_text(app, "--gpu", options->gpu, "NAME",
           "A GPU that need not be here, such as H200: nothing is measured.");
  add_flag(app, "--no-measure", options->no_measure,
           "Print only what is published or can be calculated.");
  add_real(
      app, "--max-seconds", options->max_seconds,
      with_default(
          "Begin nothing after this time and, on the CPU, no whole layer that would end after it.",
          fmt::format("{}", kUsualMaxSeconds)));
  add_text(app, "-o,--output", options->output, "FILE.csv",
           "Also write the figures as CSV, each with its source beside it.");
  add_text(app, "--json", options->json, "FILE.json",
           "Also write them as JSON; - is the standard output.");
  add_flag(app, "--wide", options->wide, "Show every column in full, however wide the table gets.");
  add_examples(app, {"octet advise --shape 8192x6144x4096",
                     "octet advise --shape 8192x6144x4096 --gpu H200 --json -"});
  choose_when_given(app, chosen, [options] { return advise(*options); });
}

}  // namespace octet::tool
