// Runs the octet command as a user would and captures its output.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace octet::tool {

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A folder of this test, removed at its end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "octet_tool_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::size_t lines_with(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += has(line, part);
  return count;
}

// The octet command of this build, or $OCTET_TOOL if the tests were moved elsewhere.
inline std::string tool_path() {
  const char* given = std::getenv("OCTET_TOOL");
  return given != nullptr ? given : OCTET_TOOL_PATH;
}

// `arguments` and `environment` are parsed by a shell. A history is written only if `environment`
// names one, never to the user's own.
inline Outcome run_tool(const std::string& arguments, const std::string& environment = "") {
  const Folder folder;
  setenv("OCTET_HISTORY", "none", 1);
  unsetenv("COLUMNS");  // tables are whole unless a test says otherwise
  const std::string command = "(" + environment + " " + tool_path() + " " + arguments + ") >" +
                              folder.file("out") + " 2>" + folder.file("err") + " </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder.file("out")),
          read_file(folder.file("err"))};
}

}  // namespace octet::tool
