// The configuration of a bundle that somebody else wrote, changed in place for the OCI runtime.
//
// What was there is kept beside it, under a name made from what it was replaced by: a bundle that
// is run a second time, as by hand, is changed from its original and not from our changes. One that
// was written anew meanwhile is another, and is taken as it is.
#ifndef CGPU_RUNTIME_BUNDLE_H_
#define CGPU_RUNTIME_BUNDLE_H_

#include <string>

#include "base/result.h"

namespace cgpu {

class Bundle {
 public:
  // `config`: in `folder`, or an absolute path. kNotFound, or why it cannot be read.
  [[nodiscard]] static Result<Bundle> Open(const std::string& folder, const std::string& config);

  // As it was written.
  [[nodiscard]] const std::string& text() const { return text_; }

  // Puts `text` in its place, with the same owner and mode.
  [[nodiscard]] Result<> Replace(const std::string& text);

 private:
  Bundle(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}
  [[nodiscard]] std::string KeptPath(const std::string& replacement) const;

  std::string path_;
  std::string text_;
  std::string kept_;  // where text_ was found, if it is not what lies at path_
};

}  // namespace cgpu

#endif  // CGPU_RUNTIME_BUNDLE_H_
