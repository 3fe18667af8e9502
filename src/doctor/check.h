// A check of `cgpu doctor`: what it looks at, why that matters and how to mend it. All checks are
// the rows of one table (check_table.cc). The help page docs/howto/doctor.md is made of it.
#ifndef CGPU_DOCTOR_CHECK_H_
#define CGPU_DOCTOR_CHECK_H_

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "doctor/facts.h"

namespace cgpu::doctor {

enum class Category { kKernel, kDriver, kEngines, kCgpu, kKubernetes };
inline constexpr std::array kCategories = {Category::kKernel, Category::kDriver, Category::kEngines,
                                           Category::kCgpu, Category::kKubernetes};
// Returns its name on the command line.
[[nodiscard]] std::string_view NameOf(Category category);

// Weight of a finding. kError: something does not work, or protects less than promised. kWarning:
// it will hurt some users. kNote: good to know.
enum class Severity { kError, kWarning, kNote };
[[nodiscard]] std::string_view NameOf(Severity severity);

// Result of one look.
struct Finding {
  enum class Kind { kRight, kWrong, kSkipped };
  Kind kind = Kind::kRight;
  std::string text;  // what was found; of a skipped one, why nobody looked
};
[[nodiscard]] inline Finding Right(std::string text) {
  return {Finding::Kind::kRight, std::move(text)};
}
[[nodiscard]] inline Finding Wrong(std::string text) {
  return {Finding::Kind::kWrong, std::move(text)};
}
[[nodiscard]] inline Finding Skipped(std::string text) {
  return {Finding::Kind::kSkipped, std::move(text)};
}

// Traits of a check, to be combined.
inline constexpr unsigned kNone = 0;
inline constexpr unsigned kBefore = 1;   // also makes sense before cgpu is installed
inline constexpr unsigned kRoot = 2;     // only root can look
inline constexpr unsigned kSettles = 4;  // what is wrong may mend itself within seconds

struct Check {
  std::string_view id;  // also the anchor of its section in the help page
  Category category;
  Severity severity;
  unsigned traits;
  Finding (*look)(const Facts&);  // changes nothing
  std::string_view what;          // what is right, as a sentence without a full stop
  std::string_view why;
  std::string_view fix;
};

// Returns all checks, by category and in the order in which they are made.
[[nodiscard]] std::span<const Check> Checks();

// Path of the help page within the project, and in the package's documentation.
inline constexpr std::string_view kPage = "docs/howto/doctor.md";

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_CHECK_H_
