// Makes the checks and tells what they found.
#ifndef CGPU_DOCTOR_EXAMINATION_H_
#define CGPU_DOCTOR_EXAMINATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "doctor/check.h"
#include "doctor/facts.h"

namespace cgpu::doctor {

struct Choice {
  std::vector<Category> only = {};  // empty: all but kubernetes
  bool before = false;              // only checks that make sense before cgpu is installed
  bool kubernetes = false;          // also the category kubernetes
  unsigned wait = 0;                // seconds in which a wrong thing that settles may do so
};

// Parses names of categories with commas between them. kInvalid names the known ones.
[[nodiscard]] Result<std::vector<Category>> ParseCategories(std::string_view text);

struct Answer {
  const Check* check = nullptr;
  Finding finding;
};

// Makes the chosen checks, in the order of the table.
[[nodiscard]] std::vector<Answer> Examine(const Facts& facts, const Choice& choice);

// Returns whether one of the findings is an error.
[[nodiscard]] bool HasErrors(const std::vector<Answer>& answers);

// Return the answers as text for people, without those that are right or skipped if `brief`; or as
// JSON.
[[nodiscard]] std::string AsTable(const std::vector<Answer>& answers, bool brief);
[[nodiscard]] std::string AsJson(const std::vector<Answer>& answers);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_EXAMINATION_H_
