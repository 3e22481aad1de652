// octet: benchmarks and checks the operators on this machine.
// Exit status: 0 success, 1 a gate failed or a case could not be run, 2 the command line is wrong
// or asks for something this machine or build lacks, such as disk space.
#include "tool/console.hpp"
#include "tool/options/command_text.hpp"
#include "tool/options/options.hpp"

#include <octet/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <system_error>

namespace octet::tool {
namespace {

int exit_status(const Error& error) {
  switch (error.code()) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
    case ErrorCode::no_device: return kExitUsage;
    default: return kExitFailed;
  }
}

// `message` has no control characters: it may quote what was given.
int complain(const CLI::App& octet, const std::string& message, int status) {
  fmt::print(stderr, "{}: {}\n", command_path(innermost_given(octet)), message);
  return status;
}

// An error of the library may list the implementations that refused a problem, a line for each.
std::string printable_lines(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    result += (result.empty() ? "" : "\n") + printable(line);
  }
  return result;
}

// Output may still be buffered. A full disk shows only when it is flushed.
void require_printed() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw std::system_error(errno, std::generic_category(), "standard output");
}

int run_command(int argc, char** argv) {
  CLI::App octet(
      "octet benchmarks and checks FP8 training operators: linear layers, casts to FP8, and the "
      "norms, rotations and gated MLPs around them, on GPUs and CPUs.",
      "octet");
  Chosen chosen;
  try {
    add_commands(octet, chosen);
    octet.parse(argc, argv);
    const int status = chosen.run();
    require_printed();
    return status;
  } catch (const CLI::Success& wanted) {
    const int status = octet.exit(wanted);
    if (std::cout.flush()) return status;
    return complain(octet, "standard output: the help could not be written", kExitUsage);
  } catch (const CLI::ParseError& error) {
    return complain(octet, printable(explain(innermost_given(octet), error)), kExitUsage);
  } catch (const UsageError& error) {
    return complain(octet, printable_lines(error.what()), kExitUsage);
  } catch (const Error& error) {
    return complain(octet, printable_lines(error.what()), exit_status(error));
  } catch (const std::system_error& error) {  // from a file, for example on a full disk
    return complain(octet, printable(error.what()), kExitUsage);
  } catch (const std::exception& error) {
    return complain(octet, printable_lines(explain(error)), kExitFailed);
  }
}

}  // namespace
}  // namespace octet::tool

int main(int argc, char** argv) { return octet::tool::run_command(argc, argv); }
