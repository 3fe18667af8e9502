// Result<T> is a value or an Error: the one way in which functions of this project report failure.
//
// An Error has a code to branch on, the errno it came from (0 if none), a sentence that says what
// happened, and a hint that says what to do next (may be empty). Programs print both; see
// FormatError(). Ignoring a Result does not compile clean.
//
// Depends on the standard library alone, because the shim does. No exception leaves this header.
#ifndef CGPU_BASE_RESULT_H_
#define CGPU_BASE_RESULT_H_

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace cgpu {

enum class Code {
  kInvalid,      // the request itself is wrong: the user must change it
  kNotFound,     // the thing named does not exist
  kPermission,   // the caller may not do this
  kExhausted,    // a limit or a GPU is full
  kConflict,     // clashes with something that exists or is in progress
  kUnavailable,  // the other side is gone or not there yet; trying again may help
  kUnsupported,  // this kernel, driver or GPU cannot do it
  kInternal,     // our fault
};

struct Error {
  Code code = Code::kInternal;
  int sys_errno = 0;
  std::string what;
  std::string hint;
};

// Returns an error that says "WHAT: strerror" and keeps `sys_errno`.
[[nodiscard]] Error ErrnoError(Code code, int sys_errno, std::string what);

// Returns the text that a user sees: "error: WHAT" and, when there is one, "\nhint: HINT". No
// trailing newline.
[[nodiscard]] std::string FormatError(const Error& error);

template <class T = void>
class [[nodiscard]] Result {
 public:
  // Implicit, for `return value;` and `return error;`.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : value_(std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  // Return the value or the error. Access to the side that is not there is a programming error and
  // aborts.
  [[nodiscard]] T& value() & { return Required(value_); }
  [[nodiscard]] const T& value() const& { return Required(value_); }
  [[nodiscard]] T&& value() && { return std::move(Required(value_)); }
  [[nodiscard]] const Error& error() const {
    if (ok()) {
      std::abort();
    }
    return error_;
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  // Returns the value, or `otherwise` in the place of an error.
  [[nodiscard]] T value_or(T otherwise) const& { return value_.value_or(std::move(otherwise)); }
  [[nodiscard]] T value_or(T otherwise) && {
    return std::move(value_).value_or(std::move(otherwise));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  template <class O>
  static auto& Required(O& value) {
    if (!value.has_value()) {
      std::abort();
    }
    return *value;
  }

  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return error;`
  Result(Error error) : failed_(true), error_(std::move(error)) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const {
    if (!failed_) {
      std::abort();
    }
    return error_;
  }

 private:
  bool failed_ = false;
  Error error_;
};

}  // namespace cgpu

// Returns the error of a Result<> expression to the caller, if it is one.
#define CGPU_TRY(...)                                                    \
  do {                                                                   \
    if (auto&& cgpu_try_result = (__VA_ARGS__); !cgpu_try_result.ok()) { \
      return cgpu_try_result.error();                                    \
    }                                                                    \
  } while (false)

// Assigns the value of a Result expression to `target`, which may declare a variable, or returns
// the error to the caller. It is two statements: not for the body of an `if` without braces.
#define CGPU_ASSIGN_OR_RETURN(target, ...) \
  CGPU_ASSIGN_OR_RETURN_IN(CGPU_JOIN(cgpu_result_, __LINE__), target, __VA_ARGS__)
#define CGPU_ASSIGN_OR_RETURN_IN(result, target, ...) \
  auto result = (__VA_ARGS__);                        \
  if (!result.ok()) {                                 \
    return result.error();                            \
  }                                                   \
  target = std::move(result).value()
#define CGPU_JOIN(left, right) CGPU_JOIN_IN(left, right)
#define CGPU_JOIN_IN(left, right) left##right

#endif  // CGPU_BASE_RESULT_H_
