// Sets an environment variable for one scope.
#pragma once

#include <cstdlib>
#include <string>

namespace octet {

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      had_value_ = true;
      old_ = old;
    }
    setenv(name, value, 1);
  }
  ~ScopedVariable() { had_value_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  bool had_value_ = false;
  std::string old_;
};

}  // namespace octet
