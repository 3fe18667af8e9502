// Changes the configuration of a bundle that another program wrote, in place, for the OCI runtime.
//
// The original is kept beside it, under a name made from what replaced it. So a bundle that is run
// a second time, for example by hand, is changed from its original and not from cgpu's changes. A
// configuration that was written again meanwhile is another one, and is taken as it is.
#ifndef CGPU_RUNTIME_BUNDLE_H_
#define CGPU_RUNTIME_BUNDLE_H_

#include <string>

#include "base/result.h"

namespace cgpu {

class Bundle {
 public:
  // Opens `config`: in `folder`, or an absolute path. kNotFound, or why it cannot be read.
  [[nodiscard]] static Result<Bundle> Open(const std::string& folder, const std::string& config);

  // Returns the configuration as it was written.
  [[nodiscard]] const std::string& text() const { return text_; }

  // Puts `text` in its place, with the same owner and mode.
  [[nodiscard]] Result<> Replace(const std::string& text);

 private:
  Bundle(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}
  [[nodiscard]] std::string KeptPath(const std::string& replacement) const;

  std::string path_;
  std::string text_;
  std::string kept_;  // path where text_ was found, if that is not path_
};

}  // namespace cgpu

#endif  // CGPU_RUNTIME_BUNDLE_H_
