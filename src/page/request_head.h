// Judges the head of a request before cpp-httplib reads it: the library bounds neither the number
// of lines nor what an encoded body becomes. Pure.
#ifndef CGPU_PAGE_REQUEST_HEAD_H_
#define CGPU_PAGE_REQUEST_HEAD_H_

#include <cstddef>
#include <string>

namespace cgpu::page {

// Bytes and lines of a head, at most.
inline constexpr std::size_t kMostHead = std::size_t{16} << 10;
inline constexpr std::size_t kMostLines = 100;
inline constexpr int kHeadTooLarge = 431;  // the status where there is more

struct HeadVerdict {
  int refusal = 0;       // status of the answer; 0: the request may go on
  std::size_t body = 0;  // bytes that follow the head
};

// Takes a head up to its empty line. `most_body`: bytes of a body, at most; 0: bodies are not read,
// whatever the head says of them. Makes the library ignore Range, of which it makes answers of any
// size.
[[nodiscard]] HeadVerdict JudgeHead(std::string& head, std::size_t most_body);

}  // namespace cgpu::page

#endif  // CGPU_PAGE_REQUEST_HEAD_H_
