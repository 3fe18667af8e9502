// Reads what programs and kernels write: versions, lines, numbers, JSON. Pure, but for the files
// and outputs that it takes from Facts.
#ifndef CGPU_DOCTOR_READING_H_
#define CGPU_DOCTOR_READING_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"
#include "doctor/value.h"

namespace cgpu::doctor {

// The first three numbers of a version; those that are missing are 0.
using Numbers = std::array<unsigned, 3>;

// Returns the first version in the text: digits with a point between them. Nothing: there is none.
[[nodiscard]] std::optional<Numbers> FirstVersion(std::string_view text);
[[nodiscard]] std::string Written(const Numbers& version);

// Returns the text without blanks and line ends around it.
[[nodiscard]] std::string Trimmed(std::string_view text);
[[nodiscard]] std::vector<std::string> LinesOf(const std::string& text);
// Returns the words with ", " between them, the first few of many.
[[nodiscard]] std::string Joined(const std::vector<std::string>& words);
[[nodiscard]] bool Has(const std::vector<std::string>& words, const std::string& word);

// Returns a small file's text without blanks around it; "" where it cannot be read.
[[nodiscard]] std::string TextOf(const Facts& facts, const std::string& path);
// Returns a file's number; nothing where it cannot be read or is none.
[[nodiscard]] std::optional<unsigned long> NumberOf(const Facts& facts, const std::string& path);
// Returns the path of a file in a folder.
[[nodiscard]] std::string In(const std::string& folder, const std::string& name);
[[nodiscard]] bool Exists(const Facts& facts, const std::string& path);
// Returns the names in a folder; none where it cannot be listed.
[[nodiscard]] std::vector<std::string> NamesIn(const Facts& facts, const std::string& folder);
// Returns where a program is: `name` itself if it is a path. Nothing: it is not installed.
[[nodiscard]] std::optional<std::string> FindProgram(const Facts& facts, const std::string& name);
// Returns the path of a program that lies beside this cgpu.
[[nodiscard]] std::string Beside(const Facts& facts, const std::string& name);
// Returns what the program prints; "" where it fails or is not there.
[[nodiscard]] std::string OutputOrNothing(const Facts& facts,
                                          const std::vector<std::string>& words);

// Returns the text from the first bracket on: programs warn before they print JSON.
[[nodiscard]] std::string JsonPart(const std::string& text);
// Returns the list that a command of cgpu's printed as JSON; `command` names it in the error.
[[nodiscard]] Result<Value> ListIn(const Result<Output>& output, const std::string& command);

struct Process {
  std::string number;
  std::string name;     // as /proc/PID/comm has it: 15 characters at most
  std::string program;  // as /proc/PID/exe leads to; "" where this user may not know
};
[[nodiscard]] std::vector<Process> Processes(const Facts& facts);
// Returns the numbers of the processes with this name, of which the kernel keeps 15 characters.
[[nodiscard]] std::vector<std::string> Named(const Facts& facts, std::string_view name);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_READING_H_
