// A test program in three functions: check, check_near and run.
#pragma once

#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <source_location>
#include <stdexcept>
#include <string>

namespace zerofleet::test {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline std::string where(const std::source_location& at) {
  return std::string(at.file_name()) + ":" + std::to_string(at.line()) + ": ";
}

inline void check(bool holds, const std::source_location& at = std::source_location::current()) {
  if (!holds) throw Failure(where(at) + "does not hold");
}

inline void check_near(double number, double expected, double tolerance = 1e-6,
                       const std::source_location& at = std::source_location::current()) {
  if (!(std::abs(number - expected) <= tolerance)) {
    throw Failure(where(at) + std::to_string(number) + " is not near " + std::to_string(expected));
  }
}

// Calls `action`, which must throw an `Exception`.
template <class Exception, class Callable>
void check_throws(Callable&& action,
                  const std::source_location& at = std::source_location::current()) {
  try {
    action();
  } catch (const Exception&) {
    return;
  }
  throw Failure(where(at) + "nothing was thrown");
}

struct Case {
  const char* name;
  std::function<void()> body;
};

// Runs all cases and says which fail; the exit status for main.
inline int run(std::initializer_list<Case> cases) {
  int failures = 0;
  for (const Case& test : cases) {
    try {
      test.body();
      std::printf("ok      %s\n", test.name);
    } catch (const std::exception& error) {
      ++failures;
      std::printf("FAILED  %s: %s\n", test.name, error.what());
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace zerofleet::test
