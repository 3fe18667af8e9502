#include "doctor/examination.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>

namespace cgpu::doctor {
namespace {

constexpr std::size_t kWidth = 79;   // columns of the table
constexpr std::size_t kIndent = 10;  // columns before what is said of a finding

bool IsChosen(const Check& check, const Choice& choice) {
  if (choice.before && (check.traits & kBefore) == 0) {
    return false;
  }
  if (check.category == Category::kKubernetes && choice.kubernetes) {
    return true;
  }
  return choice.only.empty() ? check.category != Category::kKubernetes
                             : std::ranges::find(choice.only, check.category) != choice.only.end();
}

Finding LookAt(const Check& check, const Facts& facts) {
  if ((check.traits & kRoot) != 0 && facts.User() != 0) {
    return Skipped("only root can see this: run it with sudo");
  }
  return check.look(facts);
}

bool MaySettle(const Answer& answer) {
  return answer.finding.kind == Finding::Kind::kWrong && (answer.check->traits & kSettles) != 0;
}

// Returns "ok", "skipped", or the severity of what is wrong.
std::string_view WordOf(const Answer& answer) {
  switch (answer.finding.kind) {
    case Finding::Kind::kRight:
      return "ok";
    case Finding::Kind::kSkipped:
      return "skipped";
    case Finding::Kind::kWrong:
      break;
  }
  return NameOf(answer.check->severity);
}

// Returns whether a terminal might act on it: findings quote what others have written.
bool IsControl(char c) {
  return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
}

// Returns the text in lines of the table's width. The first line begins where the caller is, after
// `used` columns.
std::string Wrapped(std::string_view text, std::size_t indent, std::size_t used) {
  std::istringstream words{std::string(text)};
  std::string lines;
  std::size_t column = used;
  bool first = true;
  for (std::string word; words >> word; first = false) {
    if (!first && column + 1 + word.size() > kWidth) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      lines += " ";
      ++column;
    }
    std::ranges::replace_if(word, IsControl, '?');
    lines += word;
    column += word.size();
  }
  return lines + "\n";
}

std::string Paragraph(std::string_view head, std::string_view text) {
  return std::string(kIndent, ' ') + std::string(head) +
         Wrapped(text, kIndent + 2, kIndent + head.size());
}

std::string Place(const Check& check) {
  return std::string(kPage) + "#" + std::string(check.id);
}

std::string Line(const Answer& answer) {
  std::string line(WordOf(answer));
  line.resize(kIndent, ' ');
  line += std::string(answer.check->id) + ": ";
  line += Wrapped(answer.finding.text, kIndent + 2, line.size());
  if (answer.finding.kind == Finding::Kind::kWrong) {
    line += Paragraph("why: ", answer.check->why) + Paragraph("fix: ", answer.check->fix) +
            Paragraph("see: ", Place(*answer.check));
  }
  return line;
}

std::size_t Count(const std::vector<Answer>& answers, std::string_view word) {
  return static_cast<std::size_t>(std::ranges::count(answers, word, WordOf));
}

}  // namespace

std::string_view NameOf(Category category) {
  constexpr std::array<std::string_view, kCategories.size()> kNames = {
      "kernel", "driver", "engines", "cgpu", "kubernetes"};
  return kNames[static_cast<std::size_t>(category)];
}

std::string_view NameOf(Severity severity) {
  constexpr std::string_view kNames[] = {"error", "warning", "note"};
  return kNames[static_cast<std::size_t>(severity)];
}

Result<std::vector<Category>> ParseCategories(std::string_view text) {
  std::vector<Category> found;
  std::istringstream names{std::string(text)};
  for (std::string name; std::getline(names, name, ',');) {
    const auto* const at = std::ranges::find_if(
        kCategories, [&](Category category) { return NameOf(category) == name; });
    if (at == kCategories.end()) {
      return Error{
          Code::kInvalid, 0, "there is no category \"" + name + "\"",
          "there are kernel, driver, engines, cgpu and kubernetes; a comma is between two"};
    }
    found.push_back(*at);
  }
  return found;
}

std::vector<Answer> Examine(const Facts& facts, const Choice& choice) {
  std::vector<Answer> answers;
  for (const Check& check : Checks()) {
    if (IsChosen(check, choice)) {
      answers.push_back({&check, LookAt(check, facts)});
    }
  }
  for (unsigned second = 0; second < choice.wait && std::ranges::any_of(answers, MaySettle);
       ++second) {
    facts.Pause();
    for (Answer& answer : answers) {
      if (MaySettle(answer)) {
        answer.finding = LookAt(*answer.check, facts);
      }
    }
  }
  return answers;
}

bool HasErrors(const std::vector<Answer>& answers) {
  return Count(answers, NameOf(Severity::kError)) != 0;
}

std::string AsTable(const std::vector<Answer>& answers, bool brief) {
  std::string text;
  const Category* last = nullptr;
  for (const Answer& answer : answers) {
    if (brief && answer.finding.kind != Finding::Kind::kWrong) {
      continue;
    }
    if (last == nullptr || *last != answer.check->category) {
      text += (last == nullptr ? "" : "\n") + std::string(NameOf(answer.check->category)) + "\n";
      last = &answer.check->category;
    }
    text += Line(answer);
  }
  std::string sum = text.empty() ? "" : "\n";
  for (const std::string_view word : {"error", "warning", "note"}) {
    const std::size_t count = Count(answers, word);
    sum += std::to_string(count) + " " + std::string(word) + (count == 1 ? ", " : "s, ");
  }
  sum += std::to_string(Count(answers, "ok")) + " ok, " +
         std::to_string(Count(answers, "skipped")) + " skipped\n";
  return text + sum;
}

std::string AsJson(const std::vector<Answer>& answers) {
  auto list = nlohmann::ordered_json::array();
  for (const Answer& answer : answers) {
    const Check& check = *answer.check;
    list.push_back({{"id", check.id},
                    {"category", NameOf(check.category)},
                    {"status", WordOf(answer)},
                    {"severity", NameOf(check.severity)},
                    {"found", answer.finding.text},
                    {"what", check.what},
                    {"why", check.why},
                    {"fix", check.fix},
                    {"see", Place(check)}});
  }
  const nlohmann::ordered_json json{{"errors", Count(answers, "error")},
                                    {"warnings", Count(answers, "warning")},
                                    {"notes", Count(answers, "note")},
                                    {"checks", list}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace cgpu::doctor
