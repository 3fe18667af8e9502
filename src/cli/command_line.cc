#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

namespace cgpu::cli {

const Option& Option::Required() const {
  option_->required();
  return *this;
}

const Option& Option::Between(std::uint64_t least, std::uint64_t most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}

const Option& Option::Between(double least, double most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}

const Option& Option::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

const Option& Option::Excludes(const std::string& other) const {
  option_->excludes(other);
  return *this;
}

const Option& Option::Needs(const Option& other) const {
  option_->needs(other.option_);
  return *this;
}

Command Command::AddCommand(const std::string& name, const std::string& description) const {
  return Command(app_->add_subcommand(name, description));
}

Command Command::AddGroup(const std::string& name) const {
  return Command(app_->add_option_group(name));
}

template <typename T>
Option Command::AddOption(const std::string& names, T& value, const std::string& help) const {
  return Option(app_->add_option(names, value, help));
}

template <typename T>
Option Command::AddOptionCallback(const std::string& names,
                                  const std::function<void(const T&)>& take,
                                  const std::string& help) const {
  return Option(app_->add_option_function<T>(names, take, help));
}

Option Command::AddText(const std::string& names, std::optional<std::string>& value,
                        const std::string& help) const {
  return AddOptionCallback<std::string>(
      names, [&value](const std::string& text) { value = text; }, help);
}

Option Command::AddFlag(const std::string& names, bool& value, const std::string& help) const {
  return Option(app_->add_flag(names, value, help));
}

Option Command::AddFlagCallback(const std::string& names, const std::function<void()>& take,
                                const std::string& help) const {
  return Option(app_->add_flag_callback(names, take, help));
}

void Command::RequireCommand() const {
  app_->require_subcommand(1);
}

void Command::RequireOne() const {
  app_->require_option(1);
}

void Command::KeepOtherWords() const {
  app_->prefix_command();
}

void Command::SetFooter(const std::string& text) const {
  app_->footer(text);
}

void Command::OnParsed(const std::function<void()>& run) const {
  app_->callback(run);
}

std::size_t Command::Count(const std::string& option) const {
  return app_->count(option);
}

std::vector<std::string> Command::OtherWords() const {
  return app_->remaining();
}

bool Command::HasCommand(const std::string& name) const {
  const auto all = app_->get_subcommands([](const CLI::App*) { return true; });
  return std::ranges::any_of(all, [&](const CLI::App* known) { return known->get_name() == name; });
}

Program::Program(const std::string& description, const std::string& name)
    : Program(std::make_unique<CLI::App>(description, name)) {}

Program::Program(std::unique_ptr<CLI::App> owned)
    : Command(owned.get()), owned_(std::move(owned)) {}

Program::~Program() = default;

void Program::SetVersion(const std::string& text) const {
  owned_->set_version_flag("--version", text);
}

Parsed Program::Parse(std::vector<std::string> words) const {
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    owned_->parse(std::move(words));
  } catch (const CLI::Success& request) {  // --help, --version
    std::ostringstream text;
    owned_->exit(request, text, text);
    return {Parsed::Kind::kText, text.str(), {}};
  } catch (const CLI::ParseError& error) {
    std::string command = owned_->get_name();
    for (const CLI::App* named : owned_->get_subcommands()) {
      command = owned_->get_name() + " " + named->get_name();
    }
    return {Parsed::Kind::kWrong, error.what(), std::move(command)};
  }
  return {};
}

std::optional<int> Program::ParseOrPrint(int argc, char** argv) const {
  try {
    owned_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return owned_->exit(error);
  }
  return std::nullopt;
}

template Option Command::AddOption(const std::string&, std::string&, const std::string&) const;
template Option Command::AddOption(const std::string&, std::vector<std::string>&,
                                   const std::string&) const;
template Option Command::AddOption(const std::string&, double&, const std::string&) const;
template Option Command::AddOption(const std::string&, unsigned&, const std::string&) const;
template Option Command::AddOption(const std::string&, std::int64_t&, const std::string&) const;
template Option Command::AddOption(const std::string&, std::uint64_t&, const std::string&) const;
template Option Command::AddOption(const std::string&, std::optional<unsigned>&,
                                   const std::string&) const;
template Option Command::AddOption(const std::string&, std::optional<std::uint64_t>&,
                                   const std::string&) const;
template Option Command::AddOptionCallback(const std::string&,
                                           const std::function<void(const std::string&)>&,
                                           const std::string&) const;
template Option Command::AddOptionCallback(const std::string&,
                                           const std::function<void(const std::uint32_t&)>&,
                                           const std::string&) const;
template Option Command::AddOptionCallback(const std::string&,
                                           const std::function<void(const std::uint64_t&)>&,
                                           const std::string&) const;

}  // namespace cgpu::cli
