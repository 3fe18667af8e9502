#include "base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/printable.h"

namespace cgpu {
namespace {

LogForm& Form() {
  static LogForm form;
  return form;
}

// Returns whether standard error is the journal's stream (systemd.exec(5), $JOURNAL_STREAM).
bool IsJournal() {
  const char* const stream = secure_getenv("JOURNAL_STREAM");
  struct stat info{};
  return stream != nullptr && fstat(STDERR_FILENO, &info) == 0 &&
         std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) == stream;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : Printable(std::string(text))) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return quoted + '"';
}

std::string Value(std::string_view text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c <= '~' && c != '"' && c != '=' && c != '\\';
  });
  return plain ? std::string(text) : Quoted(text);
}

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kNotice:
      return "notice";
    case LogLevel::kInfo:
      break;
  }
  return "info";
}

}  // namespace

std::string LogLine(const LogForm& form, LogLevel level, std::string_view message,
                    const LogFields& fields) {
  std::string line;
  if (form.json) {
    line = "{\"level\":" + Quoted(NameOf(level)) + ",\"program\":" + Quoted(form.program) +
           ",\"message\":" + Quoted(message);
    for (const auto& [key, value] : fields) {
      line += "," + Quoted(key) + ":" + Quoted(value);
    }
    return line + "}\n";
  }
  if (form.prefixed) {
    line = "<" + std::to_string(static_cast<int>(level)) + ">";
  }
  line += form.program + ": " + Printable(std::string(message));
  for (const auto& [key, value] : fields) {
    line += " " + key + "=" + Value(value);
  }
  return line + "\n";
}

void SetLogForm(const std::string& program, bool json) {
  Form() = {program, json, IsJournal()};
}

void Log(LogLevel level, std::string_view message, const LogFields& fields) {
  (void)WriteAll(STDERR_FILENO, LogLine(Form(), level, message, fields));
}

void LogError(const Error& error) {
  Log(LogLevel::kError, error.what,
      error.hint.empty() ? LogFields() : LogFields{{"hint", error.hint}});
}

}  // namespace cgpu
