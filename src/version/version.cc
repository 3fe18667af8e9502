#include "version/version.h"

#include "rm/abi.h"

namespace cgpu {
namespace {

constexpr std::string_view kCommit =
#include "commit.inc"  // written by cmake/commit.cmake
    ;

}  // namespace

std::string VersionText(std::string_view program) {
  std::string text = std::string(program) + " " CGPU_VERSION "\ncommit ";
  text += kCommit.empty() ? "unknown: there was no git repository to ask" : kCommit;
  text += "\ndriver branches";
  for (const rm::Abi& abi : rm::Abis()) {
    text.append(" ").append(abi.name);
  }
  return text;
}

}  // namespace cgpu
