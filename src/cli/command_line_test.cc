#include "cli/command_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cgpu::cli {
namespace {

using Kind = Parsed::Kind;

// A program with one subcommand, `tell`.
struct Teller {
  Teller() {
    program.SetVersion("teller 3");
    program.RequireCommand();
    tell.AddOption("WORD", word, "What to tell").Required();
    tell.AddOption("--times", times, "How often").Between(std::uint64_t{1}, 5).ShowDefault();
    tell.AddFlag("--loud", loud, "In capitals");
    const Option slow = tell.AddOption("--delay", delay, "Seconds");
    tell.AddOption("--unit", unit, "Of --delay").Needs(slow).Excludes("--loud");
    tell.OnParsed([this] { told = word; });
  }

  Program program{"Tells words", "teller"};
  Command tell = program.AddCommand("tell", "Tell a word");
  std::string word;
  std::uint64_t times = 2;
  bool loud = false;
  double delay = 0;
  std::string unit;
  std::string told;
};

TEST(CommandLine, ReadsOptionsAndCallsTheCommand) {
  Teller teller;
  const Parsed parsed = teller.program.Parse({"tell", "hello", "--times", "5", "--loud"});
  EXPECT_EQ(parsed.kind, Kind::kGood) << parsed.text;
  EXPECT_EQ(teller.told, "hello");
  EXPECT_EQ(teller.times, 5U);
  EXPECT_TRUE(teller.loud);
  EXPECT_EQ(teller.tell.Count("--times"), 1U);
  EXPECT_EQ(teller.tell.Count("--delay"), 0U);
}

TEST(CommandLine, SaysWhatIsWrongAndOfWhichCommand) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"tell"},                                                 // lacks WORD
           {"tell", "a", "--times", "6"},                            // out of range
           {"tell", "a", "--times", "-1"},                           // no number of that type
           {"tell", "a", "--unit", "ms"},                            // needs --delay
           {"tell", "a", "--delay", "1", "--unit", "ms", "--loud"},  // excluded
           {"tell", "a", "--other"}}) {
    Teller teller;
    const Parsed parsed = teller.program.Parse(words);
    EXPECT_EQ(parsed.kind, Kind::kWrong) << words.back();
    EXPECT_EQ(parsed.command, "teller tell") << words.back();
    EXPECT_FALSE(parsed.text.empty()) << words.back();
    EXPECT_EQ(teller.told, "") << words.back();
  }
  EXPECT_EQ(Teller().program.Parse({}).command, "teller");
}

TEST(CommandLine, ShowsHelpAndVersionInPlaceOfRunning) {
  Teller teller;
  const Parsed version = teller.program.Parse({"--version"});
  EXPECT_EQ(version.kind, Kind::kText);
  EXPECT_EQ(version.text, "teller 3\n");
  const Parsed help = Teller().program.Parse({"tell", "--help"});
  EXPECT_EQ(help.kind, Kind::kText);
  EXPECT_NE(help.text.find("1 to 5"), std::string::npos) << help.text;
  EXPECT_EQ(teller.told, "");
}

TEST(CommandLine, KeepsTheWordsOfAnotherProgram) {
  Program program("Runs a command", "runner");
  const Command run = program.AddCommand("run", "Run it");
  bool flag = false;
  run.AddFlag("--flag", flag, "Ours");
  run.KeepOtherWords();
  EXPECT_EQ(program.Parse({"run", "--flag", "ls", "-l", "--flag"}).kind, Kind::kGood);
  EXPECT_TRUE(flag);
  EXPECT_EQ(run.OtherWords(), (std::vector<std::string>{"ls", "-l", "--flag"}));
  EXPECT_TRUE(program.HasCommand("run"));
  EXPECT_FALSE(program.HasCommand("walk"));
  const Parsed help = program.Parse({"run", "--help"});
  EXPECT_NE(help.text.find("Usage: runner run [OPTIONS] -- CMD...\n"), std::string::npos)
      << help.text;
}

TEST(CommandLine, PrintsItsTree) {
  Teller teller;
  const Command group = teller.tell.AddGroup("place");
  bool here = false;
  group.AddFlag("--here", here, "In this room");
  const Parsed parsed = teller.program.Parse({"--print-cli"});
  EXPECT_EQ(parsed.kind, Kind::kText);
  const auto tree = nlohmann::json::parse(parsed.text);
  EXPECT_EQ(tree["name"], "teller");
  EXPECT_EQ(tree["options"][1]["names"], (std::vector<std::string>{"--version"}));
  const auto& tell = tree["commands"][0];
  EXPECT_EQ(tell["name"], "tell");
  EXPECT_EQ(tell["description"], "Tell a word");
  EXPECT_EQ(tell["runs_command"], false);
  const auto& options = tell["options"];
  EXPECT_EQ(options[0]["names"], (std::vector<std::string>{"-h", "--help"}));
  EXPECT_EQ(options[1]["names"], (std::vector<std::string>{"WORD"}));
  EXPECT_EQ(options[1]["positional"], true);
  EXPECT_EQ(options[1]["required"], true);
  EXPECT_EQ(options[2]["value"], "UINT:1 to 5");
  EXPECT_EQ(options[2]["default"], "2");
  EXPECT_EQ(options[3]["value"], "");  // a flag
  EXPECT_EQ(options[5]["needs"], (std::vector<std::string>{"--delay"}));
  EXPECT_EQ(options[5]["excludes"], (std::vector<std::string>{"--loud"}));
  EXPECT_EQ(options[6]["names"], (std::vector<std::string>{"--here"}));
  EXPECT_EQ(options[6]["one_of"], true);
  EXPECT_EQ(options.size(), 7U);
}

TEST(CommandLine, AsksForOneOfAGroupAndCallsBack) {
  const auto parse = [](std::vector<std::string> words, std::uint64_t& seen) {
    const Program program("Picks", "pick");
    const Command group = program.AddGroup("choice");
    group.AddOptionCallback<std::uint64_t>("--number", [&](std::uint64_t n) { seen = n; }, "One");
    group.AddFlagCallback("--none", [&] { seen = 0; }, "Other");
    group.RequireOne();
    return program.Parse(std::move(words)).kind;
  };
  std::uint64_t seen = 7;
  EXPECT_EQ(parse({}, seen), Kind::kWrong);
  EXPECT_EQ(parse({"--number", "0x10"}, seen), Kind::kGood);
  EXPECT_EQ(seen, 16U);
  EXPECT_EQ(parse({"--none"}, seen), Kind::kGood);
  EXPECT_EQ(seen, 0U);
}

}  // namespace
}  // namespace cgpu::cli
