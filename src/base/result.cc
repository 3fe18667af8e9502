#include "base/result.h"

#include <cstring>

namespace cgpu {

Error ErrnoError(Code code, int sys_errno, std::string what) {
  char buffer[128];
  what += ": ";
  what += strerror_r(sys_errno, buffer, sizeof(buffer));  // the GNU form: returns the text
  return Error{code, sys_errno, std::move(what), {}};
}

std::string FormatError(const Error& error) {
  std::string text = "error: " + error.what;
  if (!error.hint.empty()) {
    text += "\nhint: " + error.hint;
  }
  return text;
}

}  // namespace cgpu
