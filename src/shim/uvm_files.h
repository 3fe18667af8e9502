// The open files of nvidia-uvm that tenants have initialised, each with a duplicate of ours.
//
// Open files have no names, and UVM's address spaces cannot be asked about from outside. With a
// duplicate kept, a tenant's file is recognised by comparing it (kcmp), and when no process of the
// container has the file any more, what is in its space is given back by requests of our own whose
// answers the ledger can trust, before the file is closed: one that is hidden, on its way through a
// socket, comes back empty. Thread-safe.
#ifndef CGPU_SHIM_UVM_FILES_H_
#define CGPU_SHIM_UVM_FILES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/fd.h"
#include "kernel/maps.h"
#include "kernel/open_files.h"
#include "kernel/process.h"

namespace cgpu::shim {

struct UvmFile {
  std::uint64_t key = 0;  // of its space in boundary and ledger
  UniqueFd file;
  // Who used it last, by which number: the first place to look.
  std::shared_ptr<const kernel::Process> user;
  int number = -1;
};

class UvmFiles {
 public:
  // A process has one or two.
  static constexpr std::size_t kMost = 1024;

  explicit UvmFiles(std::uint64_t first_key) : next_key_(first_key) {}

  // Null: not one of these. Whoever holds the result keeps it from being taken away.
  [[nodiscard]] std::shared_ptr<UvmFile> Find(int file) const;

  // Its mappings are seen from now on: before the driver can be asked for any.
  void Expect(int file);
  // `duplicate`: ours to keep, of a file that was expected and is not among these.
  std::shared_ptr<UvmFile> Add(UniqueFd duplicate);

  void SetUser(UvmFile& file, std::shared_ptr<const kernel::Process> user, int number);

  // All, and the nodes that their mappings show in /proc.
  [[nodiscard]] std::vector<std::shared_ptr<UvmFile>> All() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] kernel::InodeSet Inodes() const;

  // Takes it out if nobody but the caller holds it: no call on it can begin any more.
  [[nodiscard]] bool Take(const std::shared_ptr<UvmFile>& file);
  void PutBack(std::shared_ptr<UvmFile> file);

  // From one to a later one, with PutBack() for each of All().
  [[nodiscard]] std::uint64_t next_key() const;
  void Adopt(std::uint64_t next_key, kernel::InodeSet inodes);

 private:
  // By the kernel's order of open files, so that one is found by few comparisons.
  struct ByFile {
    using is_transparent = void;
    using Pointer = std::shared_ptr<UvmFile>;
    bool operator()(const Pointer& one, const Pointer& other) const {
      return kernel::Compare(one->file.get(), other->file.get()) < 0;
    }
    bool operator()(const Pointer& one, int other) const {
      return kernel::Compare(one->file.get(), other) < 0;
    }
    bool operator()(int one, const Pointer& other) const {
      return kernel::Compare(one, other->file.get()) < 0;
    }
  };

  mutable std::mutex mutex_;  // guards the rest, and `user` and `number` of each
  std::map<std::uint64_t, std::shared_ptr<UvmFile>> files_;
  std::set<std::shared_ptr<UvmFile>, ByFile> by_file_;
  kernel::InodeSet inodes_;  // of every file that ever was here
  std::uint64_t next_key_;
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_UVM_FILES_H_
