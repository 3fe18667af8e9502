// Lines of our programs' logs, on standard error: systemd's journal, a container engine or a
// terminal takes them. A line has one of two forms:
//
//   cgpud: what happened key=value key="a value of several words"
//   {"level":"info","program":"cgpud","message":"what happened","key":"value"}
//
// The first is logfmt after a sentence. Where standard error is the journal, "<6>" goes before it:
// the level, as sd-daemon(3) has it. Some of the text is others' words, so bytes that are not
// printable ASCII are '?' in both forms.
#ifndef CGPU_BASE_LOG_H_
#define CGPU_BASE_LOG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cgpu {

// Levels of syslog(3).
enum class LogLevel { kError = 3, kWarning = 4, kNotice = 5, kInfo = 6 };

using LogFields = std::vector<std::pair<std::string, std::string>>;  // key and value

struct LogForm {
  std::string program;
  bool json = false;
  bool prefixed = false;  // has the level in front; not for JSON
};

// Returns the line, with its newline. Pure.
[[nodiscard]] std::string LogLine(const LogForm& form, LogLevel level, std::string_view message,
                                  const LogFields& fields);

// Sets the form of this process's lines. Call it before there are other threads.
void SetLogForm(const std::string& program, bool json);

// Writes a line, in one piece. Thread-safe.
void Log(LogLevel level, std::string_view message, const LogFields& fields = {});

// Writes an error's sentence, and its hint as a field.
void LogError(const Error& error);

}  // namespace cgpu

#endif  // CGPU_BASE_LOG_H_
