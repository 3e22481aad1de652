// octet profile OP: the counters of every kernel of a case, by Nsight Compute, beside its clock and
// power without it; of one build of octet or of two. This command runs again with --only timing, for
// the gates and the time, and where they are PASS under ncu with --only launches, once per part.
#include "tool/bench/headline.hpp"
#include "tool/console.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/options.hpp"
#include "tool/profile/ncu.hpp"
#include "tool/profile/profile_text.hpp"
#include "tool/progress.hpp"
#include "tool/results/stored_results.hpp"

#include "device/cuda_runtime.hpp"

#include <fmt/format.h>

#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

namespace octet::tool {
namespace {

constexpr double kSeconds = 2;
constexpr const char* kLaunches = "launches";
constexpr const char* kTiming = "timing";

struct ProfileCommand {
  std::unique_ptr<Operator> op;
  std::string part;  // empty: all
  std::int64_t launches = 3;
  std::optional<double> seconds;
  std::string build;  // empty: this one
  std::string against;
  std::string ncu;
  std::string only;
  std::string output;
  bool wide = false;

  std::vector<std::string> parts() const {
    return part.empty() ? parts_of(op->rows()) : std::vector<std::string>{part};
  }
  double timing_seconds() const { return seconds.value_or(kSeconds); }
};

// "OCTET_GEMM_BACKEND=cublaslt octet profile gemm --shape ..."
std::string command_of(const ProfileCommand& command, const Case& one) {
  const std::string bench = "octet bench ";
  std::string text = command.op->bench_command(one, {});
  text.replace(text.rfind(bench), bench.size(), "octet profile ");
  if (!command.part.empty()) text += " --part " + command.part;
  if (command.launches != ProfileCommand{}.launches) {
    text += fmt::format(" --launches {}", command.launches);
  }
  if (command.seconds) text += fmt::format(" --seconds {}", *command.seconds);
  return text;
}

// The words after the program's name of a process that runs the case by itself.
std::vector<std::string> child_words(const ProfileCommand& command, const Case& one,
                                     const std::vector<std::string>& more) {
  std::vector<std::string> words = command.op->bench_words(one);
  words.insert(words.begin(), "profile");
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void check_options(const ProfileCommand& command) {
  command.op->check_bench_options();
  if (const std::string baseline = command.op->baseline(); !baseline.empty()) {
    refuse_usage("--baseline {} is timed by octet bench; --backend selects what is profiled",
                 baseline);
  }
  if (command.only.empty()) return;
  if (!command.build.empty() || !command.against.empty() || !command.ncu.empty() ||
      !command.output.empty()) {
    refuse_usage(
        "--only runs this build without ncu and writes no file: --build, --against, --ncu and -o "
        "do not go with it");
  }
}

void require_gpu(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    if (one.device.type == DeviceType::cuda) continue;
    refuse_usage(
        "counters are read on a GPU, and {} would run on the CPU ({}); octet bench {} times "
        "it there",
        one.title(),
        cuda::device_count() > 0 ? "asked for, or no GPU takes it"
                                 : "no GPU here: " + cuda::driver_status(),
        one.arguments.substr(0, one.arguments.find(' ')));
  }
}

// --only: what the children do. They end with ncu, however that ends.
int run_here(const ProfileCommand& command) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bool all_passed = true;
  for (const Case& one : command.op->chosen_cases()) {
    if (command.only == kLaunches) {
      run_launches(*command.op, one, command.parts(), command.launches);
    } else if (!run_timing(*command.op, one, command.parts(), command.timing_seconds())) {
      all_passed = false;
    }
  }
  return all_passed ? 0 : kExitFailed;
}

struct Build {
  std::string name;  // "this", or a path as it was given
  std::string program;

  std::string text() const { return name == "this" ? "this build" : printable(name); }
};

std::vector<Build> chosen_builds(const ProfileCommand& command) {
  std::vector<Build> builds;
  if (command.build.empty()) {
    builds.push_back({"this", own_path()});
  } else {
    builds.push_back({command.build, program_path("--build", command.build)});
  }
  if (!command.against.empty()) {
    builds.push_back({command.against, program_path("--against", command.against)});
  }
  return builds;
}

// What the builds of a profile are run with.
struct Runs {
  std::string ncu;
  std::vector<Build> builds;
  std::vector<std::string> metrics = all_metrics();  // less those that ncu does not know
  Children children{};
};

// Adds the counters. Throws std::runtime_error if ncu recorded nothing.
void record(const ProfileCommand& command, const Case& one, const Build& build, Runs& runs,
            BuildProfile& profile) {
  for (const std::string& part : command.parts()) {
    const auto words = child_words(
        command, one,
        {"--only", kLaunches, "--part", part, "--launches", std::to_string(command.launches)});
    ChildRun run = runs.children.run_under(runs.ncu, build.program, words, runs.metrics);
    if (!run.ok) throw std::runtime_error(build.text() + ": " + run.complaint);
    profile.facts.merge(run.facts);
    const auto rows = kernel_rows(part, run.launches, static_cast<std::size_t>(command.launches));
    profile.rows.insert(profile.rows.end(), rows.begin(), rows.end());
  }
}

// Checks the gates and times the parts. Returns what went wrong; mostly nothing.
std::string check_and_time(const ProfileCommand& command, const Case& one, const Build& build,
                           const Runs& runs, BuildProfile& profile) {
  std::vector<std::string> more{"--only", kTiming, "--seconds",
                                fmt::format("{}", command.timing_seconds())};
  if (!command.part.empty()) more.insert(more.end(), {"--part", command.part});
  ChildRun run = runs.children.run(build.program, child_words(command, one, more));
  profile.facts.merge(run.facts);
  if (run.ok) return "";
  const auto check = profile.facts.find("check");
  if (check == profile.facts.end()) return "not checked: " + run.complaint;
  if (check->second == "PASS") return "not timed: " + run.complaint;
  return fmt::format("a gate failed; {} shows which", command.op->check_command(one));
}

bool passed(const BuildProfile& profile) {
  const auto check = profile.facts.find("check");
  return check != profile.facts.end() && check->second == "PASS";
}

void print_case(const ProfileCommand& command, const Case& one,
                const std::vector<BuildProfile>& profiles) {
  fmt::print("\n{}\n", printable(one.arguments));
  if (profiles.empty()) return;
  if (profiles.size() == 1) {
    print_table(kernel_table(profiles[0]), 2, command.wide);
  } else {
    print_table(side_by_side(profiles[0], profiles[1]), 3, command.wide);
  }
  const std::vector<bench::Row> timings = timing_table(profiles, command.parts());
  if (command.timing_seconds() > 0) print_table(timings, 3, command.wide);
  for (const BuildProfile& profile : profiles) {
    for (const std::string& part : command.parts()) {
      const auto found = profile.facts.find(part + " configuration");
      if (found == profile.facts.end() || found->second.empty()) continue;
      fmt::print("{}, {}: {}\n", printable(profile.build), part, printable(found->second));
    }
  }
}

// Dropped metrics, and how to read the table.
void print_notes(const std::vector<std::string>& metrics) {
  std::vector<std::string> dropped = all_metrics();
  std::erase_if(dropped, [&](const std::string& name) {
    return std::find(metrics.begin(), metrics.end(), name) != metrics.end();
  });
  if (!dropped.empty()) fmt::print("this ncu does not know: {}\n", fmt::join(dropped, ", "));
  fmt::print(
      "under ncu a kernel runs alone, from empty caches; - is a counter it has no value for\n");
}

// A profile per build whose gates are PASS, and what went wrong: the counters of a build that computes
// something else say nothing.
std::vector<BuildProfile> profile_case(const ProfileCommand& command, const Case& one, Runs& runs,
                                       Progress& progress, std::vector<std::string>& complaints) {
  std::vector<std::pair<const Build*, BuildProfile>> checked;
  progress.phase("checking and timing", true);
  for (const Build& build : runs.builds) {
    BuildProfile profile{build.name};
    const std::string complaint = check_and_time(command, one, build, runs, profile);
    if (!complaint.empty()) complaints.push_back(build.text() + ": " + complaint);
    if (passed(profile)) checked.emplace_back(&build, std::move(profile));
  }
  progress.phase("under ncu");
  std::vector<BuildProfile> profiles;
  for (auto& [build, profile] : checked) {
    record(command, one, *build, runs, profile);
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

struct Done {
  std::size_t cases = 0;
  bool all_well = true;
};

// The rows of a case are written when it is done.
void profile_cases(const ProfileCommand& command, const std::vector<Case>& cases, Runs& runs,
                   const ReplacedTable& table, Done& done) {
  std::vector<bench::Row> rows;
  Progress progress(std::vector<double>(cases.size(), 1));
  for (const Case& one : cases) {
    progress.show(done.cases, one.title());
    std::vector<std::string> complaints;
    const auto profiles = profile_case(command, one, runs, progress, complaints);
    progress.clear();
    print_case(command, one, profiles);
    for (const std::string& complaint : complaints) fmt::print("{}\n", complaint);
    std::fflush(stdout);
    for (const BuildProfile& profile : profiles) {
      const auto more = profile_rows(profile, command.op->name(), one, command_of(command, one));
      rows.insert(rows.end(), more.begin(), more.end());
    }
    if (!profiles.empty()) table.write(rows);
    done.all_well = done.all_well && complaints.empty();
    ++done.cases;
  }
}

int profile_operator(const ProfileCommand& command) {
  constexpr int kExitOfASignal = 128;  // plus its number, as in shells
  check_options(command);
  if (!command.only.empty()) return run_here(command);
  const std::vector<Case> cases = command.op->chosen_cases();
  require_gpu(cases);
  Runs runs{find_ncu(command.ncu), chosen_builds(command)};
  const ReplacedTable table(command.output, profile_header(), "a profile of octet");
  fmt::print("{}\n", machine_headline({{cases.at(0).device, "octet profile"}}, 0));
  std::fflush(stdout);
  Done done;
  try {
    profile_cases(command, cases, runs, table, done);
  } catch (const Interrupted& interrupted) {
    fmt::print(stderr, "octet profile: interrupted after {} of {}; {}\n", done.cases,
               counted(cases.size(), "case"),
               done.cases == 0 || command.output.empty()
                   ? "nothing was written"
                   : "what was profiled is in " + printable(command.output));
    return kExitOfASignal + interrupted.signal;
  }
  print_notes(runs.metrics);
  return done.all_well ? 0 : kExitFailed;
}

void add_profile_options(CLI::App& app, ProfileCommand& command) {
  constexpr std::int64_t kMostLaunches = 1000;
  option_group(app, "Profile");
  add_choice(app, "--part", parts_of(command.op->rows()),
             with_default("Only this part of a case.", "all of them"),
             [&command](const std::string& text) { command.part = text; });
  add_whole(app, "--launches", command.launches, 1, kMostLaunches,
            "Calls of each part under ncu; a counter is the median over them.");
  add_real(app, "--seconds", command.seconds,
           with_default("Seconds for which a part is timed without ncu, for its time, clock and "
                        "power; 0 leaves that out.",
                        fmt::format("{}", kSeconds)));
  add_text(app, "--build", command.build, "PATH",
           with_default("The octet command of another build, to profile in place of this one.",
                        "this one"));
  add_text(app, "--against", command.against, "PATH",
           "The octet command of a second build, for its counters beside those of the first.");
  add_text(app, "--ncu", command.ncu, "PATH",
           with_default("The command of Nsight Compute, a path or a name on the PATH.", "ncu"));
  add_choice(app, "--only", {kLaunches, kTiming},
             "Run without ncu only what is profiled, for a profiler that is started by hand with "
             "--profile-from-start off, or only the timing. Takes the CPU, too.",
             [&command](const std::string& text) { command.only = text; });
  option_group(app, "Output");
  add_text(app, "-o,--output", command.output, "FILE.csv",
           "Also write the counters as CSV, a row per kernel and build.");
  add_flag(app, "--wide", command.wide, "Show every column in full, however wide the table gets.");
}

}  // namespace

void add_profile(CLI::App& octet, Chosen& chosen) {
  CLI::App& profile = add_command(
      octet, "profile",
      "Counters of an operator's kernels by Nsight Compute: tensor pipe, issue slots, L2 cache, "
      "memory, clock, spills; two builds side by side.");
  require_command(profile);
  for (const MakeOperator make : operators()) {
    const auto command = std::make_shared<ProfileCommand>();
    command->op = make();
    Operator& op = *command->op;
    CLI::App& app = add_command(profile, op.name(), op.about());
    op.add_options(app, true);
    op.add_bench_options(app);
    add_profile_options(app, *command);
    std::vector<std::string> examples;
    for (const char* options : op.examples(true)) {
      examples.push_back(fmt::format("octet profile {} {}", op.name(), options));
    }
    add_examples(app, examples);
    choose_when_given(app, chosen, [command] { return profile_operator(*command); });
  }
  add_examples(profile, {"octet profile rope --shape 2x4096x4096 --part backward -o rope.csv",
                         "octet profile gemm --shape 8192x8192x8192 --against OLD/octet"});
}

}  // namespace octet::tool
