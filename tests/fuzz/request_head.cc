// The head of a request that anybody may send: what is let pass announces no body but one of a
// length that is taken, and asks for no ranges.
#include "page/request_head.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "tests/fuzz/input.h"

using cgpu::fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  constexpr std::size_t kMostBody = 5000;
  std::string head(reinterpret_cast<const char*>(bytes), size);
  const auto verdict = cgpu::page::JudgeHead(head, kMostBody);
  Require(head.size() == size, "the head keeps its length");
  if (verdict.refusal == 0) {
    std::transform(head.begin(), head.end(), head.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    Require(verdict.body <= kMostBody, "the body is small");
    for (const char* name : {"\nrange:", "\ntransfer-encoding:", "\ncontent-encoding:"}) {
      Require(head.find(name) == std::string::npos, name);
    }
  }
  return 0;
}
