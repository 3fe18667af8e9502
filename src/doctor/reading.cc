#include "doctor/reading.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <sstream>

namespace cgpu::doctor {
namespace {

constexpr std::size_t kMostWords = 6;    // of a list that a finding names
constexpr std::size_t kNameLength = 15;  // TASK_COMM_LEN without the zero
constexpr const char* kDigits = "0123456789";

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

// Returns the numbers at the beginning of the text, with points between them.
std::vector<unsigned> NumbersAt(std::string_view text) {
  std::vector<unsigned> numbers;
  while (!text.empty()) {
    unsigned number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) {
      break;
    }
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.starts_with('.')) {
      break;
    }
    text.remove_prefix(1);
  }
  return numbers;
}

}  // namespace

std::optional<Numbers> FirstVersion(std::string_view text) {
  for (std::size_t at = text.find_first_of(kDigits); at != std::string_view::npos;
       at = text.find_first_of(kDigits, at)) {
    const std::vector<unsigned> found = NumbersAt(text.substr(at));
    if (found.size() >= 2) {
      Numbers numbers{};
      std::copy_n(found.begin(), std::min(found.size(), numbers.size()), numbers.begin());
      return numbers;
    }
    at = std::min(text.find_first_not_of(kDigits, at), text.size());
  }
  return std::nullopt;
}

std::string Written(const Numbers& version) {
  return std::to_string(version[0]) + "." + std::to_string(version[1]) + "." +
         std::to_string(version[2]);
}

std::string Trimmed(std::string_view text) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos
             ? std::string()
             : std::string(text.substr(first, text.find_last_not_of(kBlanks) + 1 - first));
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < std::min(words.size(), kMostWords); ++i) {
    text += (i == 0 ? "" : ", ") + words[i];
  }
  return words.size() > kMostWords
             ? text + " and " + std::to_string(words.size() - kMostWords) + " more"
             : text;
}

bool Has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

std::string TextOf(const Facts& facts, const std::string& path) {
  return Trimmed(facts.Read(path).value_or(""));
}

std::optional<unsigned long> NumberOf(const Facts& facts, const std::string& path) {
  const std::string text = TextOf(facts, path);
  unsigned long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

std::string In(const std::string& folder, const std::string& name) {
  return folder + "/" + name;
}

bool Exists(const Facts& facts, const std::string& path) {
  return facts.Look(path).ok();
}

std::vector<std::string> NamesIn(const Facts& facts, const std::string& folder) {
  return facts.List(folder).value_or({});
}

std::optional<std::string> FindProgram(const Facts& facts, const std::string& name) {
  std::vector<std::string> paths{name};
  if (!name.starts_with('/')) {
    paths.clear();
    for (const char* const folder :
         {"/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"}) {
      paths.push_back(folder + name);
    }
  }
  for (const std::string& path : paths) {
    const auto file = facts.Look(path);
    if (file.ok() && file->kind == FileFacts::Kind::kRegular && (file->mode & 0111U) != 0) {
      return path;
    }
  }
  return std::nullopt;
}

std::string Beside(const Facts& facts, const std::string& name) {
  const std::string self = facts.Program();
  return self.substr(0, self.rfind('/') + 1) + name;
}

std::string OutputOrNothing(const Facts& facts, const std::vector<std::string>& words) {
  const auto output = facts.Run(words);
  return output.ok() && output->status == 0 ? output->text : std::string();
}

std::string JsonPart(const std::string& text) {
  const std::size_t begin = text.find_first_of("[{");
  return begin == std::string::npos ? std::string() : text.substr(begin);
}

Result<Value> ListIn(const Result<Output>& output, const std::string& command) {
  if (!output.ok() || output->status != 0) {
    return Error{
        Code::kUnavailable,
        0,
        command + " does not tell: " + (output.ok() ? Trimmed(output->text) : output.error().what),
        {}};
  }
  Value list = Value::Parse(JsonPart(output->text));
  if (!list.IsList()) {
    return Error{Code::kInvalid, 0, command + " prints no list", {}};
  }
  return list;
}

std::vector<Process> Processes(const Facts& facts) {
  std::vector<Process> processes;
  for (const std::string& number : NamesIn(facts, "/proc")) {
    if (IsNumber(number)) {
      const std::string folder = In("/proc", number);
      processes.push_back(
          {number, TextOf(facts, In(folder, "comm")), facts.Link(In(folder, "exe")).value_or("")});
    }
  }
  return processes;
}

std::vector<std::string> Named(const Facts& facts, std::string_view name) {
  std::vector<std::string> numbers;
  for (const Process& process : Processes(facts)) {
    if (process.name == name.substr(0, kNameLength)) {
      numbers.push_back(process.number);
    }
  }
  return numbers;
}

}  // namespace cgpu::doctor
