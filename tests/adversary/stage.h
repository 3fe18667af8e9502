// Parameters of a call, one word of which is another one for a later reader.
//
// Each block of parameters ends on a page of the attacker's own FUSE file, and begins on memory
// that is shared with the file's server. A reader asks for that page after it has read the words
// before it. So the server knows how many readings there were, and changes the word between two of
// them. Or a second thread changes the word without pause.
#ifndef CGPU_TESTS_ADVERSARY_STAGE_H_
#define CGPU_TESTS_ADVERSARY_STAGE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace cgpu::adversary {

using ByteString = std::vector<std::byte>;

// A block of parameters. The address of it lies at `at` in the block `holder`, or is the ioctl's.
struct Block {
  ByteString bytes;
  int holder = -1;
  std::size_t at = 0;
};

// A word that changes.
struct Flip {
  std::size_t block = 0;
  std::size_t at = 0;  // in bytes
  std::uint32_t first = 0;
  std::uint32_t later = 0;
  unsigned readings = 0;            // after which it changes; 0: all the time
  std::function<void(bool)> other;  // changes something else, all the time; null: the word
};

class Stage {
 public:
  static constexpr std::size_t kMostBlocks = 4;
  static constexpr std::size_t kMostBytes = 32 * 1024;

  // In namespaces of its own. Says why and ends where there cannot be such a file.
  Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage();

  // Makes the blocks lead to each other, as they will lie in a call.
  static void Point(std::vector<Block>& blocks);
  // Makes an ioctl and returns its errno. Puts results into the blocks, but for their last words.
  int Call(int file, std::uint64_t request, std::vector<Block>& blocks, const Flip& flip);
  // Puts bytes where a flipped pointer may lead. Returns the low word of the address, which is all
  // that differs between the blocks.
  std::uint32_t PutOther(const ByteString& bytes);
  // The pages that were asked for in the last call.
  [[nodiscard]] std::uint32_t Readings() const;

 private:
  struct Scene;

  void AnswerRead(int dev, std::uint64_t unique, std::uint64_t page);
  void Drop();
  void MapTails(std::size_t count, bool of_file);
  void LayOut(const std::vector<Block>& blocks, const Flip& flip);

  Scene* scene_;
  pid_t server_ = -1;
  int file_ = -1;
  int asked_ = -1;  // tells of each page that was asked for
  std::uint64_t next_page_ = 0;
  std::thread dropper_;
};

// Calls `other` from a second thread while `issue` runs, with true and false by turns.
void While(const std::function<void(bool)>& other, const std::function<void()>& issue);

}  // namespace cgpu::adversary

#endif  // CGPU_TESTS_ADVERSARY_STAGE_H_
