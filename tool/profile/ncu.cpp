#include "tool/profile/ncu.hpp"

#include "tool/console.hpp"
#include "tool/results/files.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace octet::tool {
namespace {

std::string no_counters(const std::string& error) {
  return fmt::format(
      "ncu may not read the counters ({}). Run octet profile as root, or let every user\n"
      "read them: the line\n"
      "  options nvidia NVreg_RestrictProfilingToAdminUsers=0\n"
      "in a file of /etc/modprobe.d, then a reboot. A container needs --cap-add=SYS_ADMIN besides; "
      "one\n"
      "in a sandbox, such as gVisor, cannot read them at all.",
      error);
}

std::string searched(const std::string& folders) {
  return folders.empty() ? "PATH is empty" : "looked in " + folders;
}

std::string no_ncu(const std::string& folders) {
  return fmt::format(
      "ncu, the command of Nsight Compute, is not on PATH ({})\n"
      "  It is part of the CUDA toolkit, often in /usr/local/cuda/bin or "
      "/opt/nvidia/nsight-compute;\n"
      "  on Debian and Ubuntu the package nsight-compute-2025.3.1, or another version, of NVIDIA's "
      "CUDA\n"
      "  repository. Put it on the PATH or name it: --ncu PATH. It must be allowed to read "
      "counters:\n"
      "  as root, or with NVreg_RestrictProfilingToAdminUsers=0 for the module nvidia; in a "
      "sandbox,\n"
      "  such as gVisor, it cannot.",
      searched(folders));
}

bool can_be_run(const std::string& path) {
  return special_file(path).empty() && access(path.c_str(), X_OK) == 0;
}

// The first program of this name in the folders of PATH; empty if there is none.
std::string program_in(const std::string& folders, const std::string& name) {
  std::istringstream stream(folders);
  for (std::string folder; std::getline(stream, folder, ':');) {
    const std::string path = (std::filesystem::path(folder.empty() ? "." : folder) / name).string();
    if (can_be_run(path)) return path;
  }
  return "";
}

std::string last_lines(const std::string& text, std::size_t most = 8) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back("  " + printable(line));
  }
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<long>(most));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string end_of(const std::string& what, const std::string& end, const std::string& text) {
  const std::string lines = last_lines(text);
  const std::string how = end.empty() ? "recorded no kernel" : "ended with " + end;
  return fmt::format("{} {}{}", what, how, lines.empty() ? "" : "; its last lines:\n" + lines);
}

std::vector<std::string> ncu_arguments(const std::vector<std::string>& metrics,
                                       const std::string& report) {
  return {"--csv",
          "--page",
          "raw",
          "--print-units",
          "base",
          "--print-kernel-base",
          "demangled",
          "--target-processes",
          "application-only",
          "--profile-from-start",
          "off",
          "--replay-mode",
          "kernel",
          "--cache-control",
          "all",
          "--clock-control",
          "none",
          "--metrics",
          fmt::format("{}", fmt::join(metrics, ",")),
          "--log-file",
          report};
}

}  // namespace

std::string find_ncu(const std::string& given) {
  if (given.find('/') != std::string::npos) return program_path("--ncu", given);
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "" : path;
  if (std::string ncu = program_in(folders, given.empty() ? "ncu" : given); !ncu.empty())
    return ncu;
  if (!given.empty()) {
    refuse_usage("--ncu {}: no such program on PATH ({}); a path has a slash, as ./{}", given,
                 searched(folders), given);
  }
  throw Error(ErrorCode::unsupported, no_ncu(folders));
}

std::string program_path(const std::string& option, const std::string& path) {
  if (const std::string what = special_file(path); !what.empty()) {
    refuse_usage("{} {}: is {}, wanted a program", option, path, what);
  }
  if (!can_be_run(path)) refuse_usage("{} {}: {}", option, path, std::strerror(errno));
  return std::filesystem::absolute(path).string();
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

Children::Children()
    : folder_((std::filesystem::temp_directory_path() / "octet_profile_XXXXXX").string()) {
  if (mkdtemp(folder_.data()) != nullptr) return;
  throw std::system_error(errno, std::generic_category(), folder_);
}

Children::~Children() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

// Empty if the program ended well.
std::string Children::run_to_end(const ChildCommand& command) const {
  const ChildEnd end = run_child(command, signals_);
  if (end.stopped_by != 0) throw Interrupted(end.stopped_by);
  return describe_end(end.wait_status);
}

ChildRun Children::run(const std::string& program,
                       const std::vector<std::string>& arguments) const {
  const std::string log = folder_ + "/octet.log";
  const std::string end = run_to_end({arguments, {}, log, program});
  const std::string text = text_if_any(log);
  ChildRun run;
  run.ok = end.empty();
  run.facts = parse_facts(text);
  if (!run.ok) run.complaint = end_of(program, end, text);
  return run;
}

ChildRun Children::run_under(const std::string& ncu, const std::string& program,
                             const std::vector<std::string>& arguments,
                             std::vector<std::string>& metrics) const {
  const std::string log = folder_ + "/octet.log";
  const std::string report = folder_ + "/ncu.csv";
  while (true) {
    std::vector<std::string> words = ncu_arguments(metrics, report);
    words.push_back(program);
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::filesystem::remove(report);
    const std::string end = run_to_end({words, {"LC_ALL=C"}, log, ncu});
    const std::string output = text_if_any(log);
    const std::string told = text_if_any(report);
    ChildRun run;
    run.facts = parse_facts(output);
    run.launches = parse_ncu(told);
    run.ok = end.empty() && !run.launches.empty();
    if (run.ok) return run;
    // Errors before ncu has opened its report go to its output.
    const std::vector<std::string> unknown = unknown_metrics(told + output, metrics);
    if (!unknown.empty() && unknown.size() < metrics.size()) {
      std::erase_if(metrics, [&](const std::string& name) {
        return std::find(unknown.begin(), unknown.end(), name) != unknown.end();
      });
      continue;
    }
    const std::string refused = refusal_of_counters(told + output);
    run.complaint = refused.empty() ? end_of("ncu", end, told) : no_counters(refused);
    if (const std::string lines = last_lines(output); !lines.empty()) {
      run.complaint += "\nthe last lines of octet under it:\n" + lines;
    }
    return run;
  }
}

}  // namespace octet::tool
