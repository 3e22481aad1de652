// The tuning table: for a problem on a device, the implementation and configuration that octet tune measured to be
// fastest. A text file that every rank of a job can read: a first line that says what it is and how many entries it
// has, then one entry a line in the order of their keys, with fields separated by tabs: problem, device, driver,
// kernels, implementation, configuration. The library only reads it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace octet {

// An entry holds for exactly these. With another driver or other kernels it is stale.
struct TuningKey {
  std::string
      problem;  // "gemm --shape 8x8x8 --a e4m3:1x128 --b e4m3:128x128 --out bf16", without its device
  std::string device;   // "NVIDIA H200, 132 multiprocessors"; "AMD EPYC 9654, avx512, 2 threads"
  std::string driver;   // "driver 13.0"; "-" on the CPU
  std::string kernels;  // a digest of what may run the problem

  friend auto operator<=>(const TuningKey&, const TuningKey&) = default;
};

struct TunedChoice {
  std::string implementation;
  std::string configuration;
  friend bool operator==(const TunedChoice&, const TunedChoice&) = default;
};

using TuningEntries = std::map<TuningKey, TunedChoice>;

// In the place of the implementation where the entry is of a user's kernel: octet::bench::tune() chose it.
inline constexpr std::string_view kUsersKernel = "kernel";

struct TuningTable {
  std::string path;
  TuningEntries entries;
};

// The file with these entries.
std::string table_text(const TuningEntries& entries);

// Called with what is wrong with a text: "line 3 has a carriage return: ...".
using TableFault = std::function<void(const std::string& what)>;
// The entries of a file's text without its broken lines; nothing if its first line is another.
std::optional<TuningEntries> parse_table(std::string_view text, const TableFault& fault);
// The table of a file. Throws Error(file_error) if it cannot be read, and Error(invalid_argument) if it is
// something else, a line is broken or an entry is missing: a job whose ranks read different tables hangs or, worse, does not.
TuningTable read_table(const std::string& path);

// Throws Error(invalid_argument) if a field is empty or has a tab or an end of line; `owner` begins the message.
void check_entry(std::string_view owner, const TuningKey& key, const TunedChoice& choice);

// The table of this process; null: none. The first call reads that of OCTET_TUNING_TABLE.
std::shared_ptr<const TuningTable> process_table();
// Replaces it.
void set_process_table(std::shared_ptr<const TuningTable> table);

}  // namespace octet
