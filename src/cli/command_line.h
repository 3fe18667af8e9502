// The command lines of our programs: options, flags and subcommands. A thin layer over CLI11, whose
// header takes ten seconds to compile in each file that uses it: only command_line.cc does.
#ifndef CGPU_CLI_COMMAND_LINE_H_
#define CGPU_CLI_COMMAND_LINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cgpu::cli {

// A handle of one option or flag. It is valid as long as its Program.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  const Option& Required() const;
  // Names what a value is, in the help and for completions, in place of TEXT: "FILE"; "CONTAINER",
  // a container that runs; "high|normal", these words. The program itself refuses what does not
  // fit.
  const Option& Value(const std::string& name) const;
  // Refuses a value outside of [least, most], and says the range in the help.
  const Option& Between(std::uint64_t least, std::uint64_t most) const;
  const Option& Between(double least, double most) const;
  // Shows the variable's present value in the help.
  const Option& ShowDefault() const;
  // Refuses a command line that has both.
  const Option& Excludes(const std::string& other) const;
  // Refuses a command line that has this option without the other.
  const Option& Needs(const Option& other) const;

 private:
  CLI::Option* option_;
};

// A handle of a program's command line or of a subcommand. It is valid as long as its Program.
//
// Names are as in "-v,--verbose"; a name without dashes is a positional argument. Variables and
// callbacks are used during Parse().
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  [[nodiscard]] Command AddCommand(const std::string& name, const std::string& description) const;
  // Adds options of which RequireOne() asks for one.
  [[nodiscard]] Command AddGroup(const std::string& name) const;

  // T: std::string, std::vector<std::string>, unsigned, double, a 64-bit integer, or an optional
  // of one of the unsigned ones. A new type is added at the end of command_line.cc.
  template <typename T>
  Option AddOption(const std::string& names, T& value, const std::string& help = "") const;
  // Adds an option of which also an empty text counts as given.
  Option AddText(const std::string& names, std::optional<std::string>& value,
                 const std::string& help) const;
  // T: std::string, std::uint32_t or std::uint64_t.
  template <typename T>
  Option AddOptionCallback(const std::string& names, const std::function<void(const T&)>& take,
                           const std::string& help) const;
  Option AddFlag(const std::string& names, bool& value, const std::string& help) const;
  Option AddFlagCallback(const std::string& names, const std::function<void()>& take,
                         const std::string& help) const;

  void RequireCommand() const;  // exactly one subcommand
  void RequireOne() const;      // exactly one option
  // Keeps the first word that it does not know, and all after it, for OtherWords().
  void KeepOtherWords() const;
  // Adds text below the help.
  void SetFooter(const std::string& text) const;
  // Calls `run` after the command's options were read, if the command line names this command.
  void OnParsed(const std::function<void()>& run) const;

  // After Parse(), or in a callback: how often an option was given.
  [[nodiscard]] std::size_t Count(const std::string& option) const;
  [[nodiscard]] std::vector<std::string> OtherWords() const;
  [[nodiscard]] bool HasCommand(const std::string& name) const;

 private:
  CLI::App* app_;
};

// The result of Program::Parse().
struct Parsed {
  enum class Kind { kGood, kText, kWrong };
  Kind kind = Kind::kGood;
  // kText: the help, the version or the tree, to be printed. kWrong: a sentence that says what is
  // wrong.
  std::string text;
  // kWrong: the program, or the program and the last subcommand that was named: "cgpu ps".
  std::string command;
};

// A program's command line.
class Program : public Command {
 public:
  Program(const std::string& description, const std::string& name);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  // Adds --version, which shows `text`.
  void SetVersion(const std::string& text) const;

  // Parses the words after the program's name. The one word --print-cli, which the help does not
  // list, asks for the whole command line as JSON: tools/cli_pages.py makes manual pages and
  // completions of it, and says what is in it.
  [[nodiscard]] Parsed Parse(std::vector<std::string> words) const;
  // Parses as Parse() does, and prints help, version or what is wrong. Returns the exit status if
  // the program is to end.
  [[nodiscard]] std::optional<int> ParseOrPrint(int argc, char** argv) const;

 private:
  explicit Program(std::unique_ptr<CLI::App> owned);

  std::unique_ptr<CLI::App> owned_;
};

}  // namespace cgpu::cli

#endif  // CGPU_CLI_COMMAND_LINE_H_
