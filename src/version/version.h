// The text that a build has about itself: version, commit, branches of the driver.
#ifndef CGPU_VERSION_VERSION_H_
#define CGPU_VERSION_VERSION_H_

#include <string>
#include <string_view>

namespace cgpu {

// Returns what `PROGRAM --version` prints, without the end of its last line:
//
//   cgpu 0.1.0
//   commit 0123456789ab
//   driver branches 535 550
//
// The second line is "commit unknown: there was no git repository to ask" where that is so, and
// "commit 0123456789ab with changes" where files differed from the commit.
[[nodiscard]] std::string VersionText(std::string_view program);

}  // namespace cgpu

#endif  // CGPU_VERSION_VERSION_H_
