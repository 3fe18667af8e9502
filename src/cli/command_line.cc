#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace cgpu::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kTree[] = "--print-cli";

Json NamesOf(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;  // the other set's order is that of addresses
  for (const CLI::Option* option : options) {
    names.insert(option->get_name());
  }
  return names;
}

Json TreeOf(const CLI::Option& option, bool one_of) {
  auto names = Json::array();
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  if (option.get_positional()) {
    names.push_back(option.get_name());
  }
  const bool flag = option.get_items_expected_max() == 0;
  return {{"names", names},
          {"positional", option.get_positional()},
          {"value", flag ? "" : option.get_type_name()},
          {"many", option.get_items_expected_max() > 1},
          {"required", option.get_required()},
          {"one_of", one_of},
          {"default", option.get_default_str()},
          {"help", option.get_description()},
          {"needs", NamesOf(option.get_needs())},
          {"excludes", NamesOf(option.get_excludes())}};
}

// `one_of`: whether the options are a group's, which has a --help of its own.
void AddOptions(const CLI::App& app, bool one_of, Json& list) {
  for (const CLI::Option* option : app.get_options()) {
    if (!one_of || option != app.get_help_ptr()) {
      list.push_back(TreeOf(*option, one_of));
    }
  }
}

// Says in the usage of a command that runs another one where that one stands.
class HelpText : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text = CLI::Formatter::make_usage(app, std::move(name));
    if (app->get_prefix_command()) {
      text.insert(text.find('\n'), " -- CMD...");
    }
    return text;
  }
};

Json TreeOf(const CLI::App& app) {
  auto options = Json::array();
  auto commands = Json::array();
  AddOptions(app, false, options);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name().empty()) {  // a group of options
      AddOptions(*sub, true, options);
    } else {
      commands.push_back(TreeOf(*sub));
    }
  }
  return {{"name", app.get_name()},     {"description", app.get_description()},
          {"footer", app.get_footer()}, {"runs_command", app.get_prefix_command()},
          {"options", options},         {"commands", commands}};
}

}  // namespace

const Option& Option::Required() const {
  option_->required();
  return *this;
}

const Option& Option::Value(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

const Option& Option::Between(std::uint64_t least, std::uint64_t most) const {
  option_->check(
      CLI::Range(least, most).description(std::to_string(least) + " to " + std::to_string(most)));
  return *this;
}

const Option& Option::Between(double least, double most) const {
  std::ostringstream text;
  text << least << " to " << most;
  option_->check(CLI::Range(least, most).description(text.str()));
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

Program::Program(std::unique_ptr<CLI::App> owned) : Command(owned.get()), owned_(std::move(owned)) {
  owned_->formatter(std::make_shared<HelpText>());  // which its commands inherit
}

Program::~Program() = default;

void Program::SetVersion(const std::string& text) const {
  owned_->set_version_flag("--version", text);
}

Parsed Program::Parse(std::vector<std::string> words) const {
  if (words == std::vector<std::string>{kTree}) {
    return {Parsed::Kind::kText, TreeOf(*owned_).dump(2) + "\n", {}};
  }
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
  if (argc == 2 && std::string_view(argv[1]) == kTree) {
    (void)std::puts(TreeOf(*owned_).dump(2).c_str());
    return 0;
  }
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
