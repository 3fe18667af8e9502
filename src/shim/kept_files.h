// The open files of nvidia-uvm that tenants have initialised, each with a duplicate of ours.
//
// Open files have no names, and UVM's address spaces cannot be asked about from outside. With a
// duplicate, the shim recognises a tenant's file by comparing it (kcmp). When no process of the
// container has the file any more, the shim gives back what is in its space by requests of its own,
// whose answers the ledger can trust, before it closes the file. A file that is hidden on its way
// through a socket thus comes back empty. Thread-safe.
#ifndef CGPU_SHIM_UVM_FILES_H_
#define CGPU_SHIM_UVM_FILES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "os/maps.h"
#include "os/open_files.h"
#include "os/process.h"

namespace cgpu::shim {

struct UvmFile {
  std::uint64_t key = 0;  // of its space in boundary and ledger
  UniqueFd file;

  // The last user, and its number of the file: the first place to look.
  struct User {
    std::shared_ptr<const os::Process> process;
    int number = -1;
  };

 private:
  friend class UvmFiles;
  User user_;
};

class UvmFiles {
 public:
  // Most files. A process has one or two.
  static constexpr std::size_t kMost = 1024;

  explicit UvmFiles(std::uint64_t first_key) : next_key_(first_key) {}

  // Returns null if it is not one of these. A holder of the result keeps it from being taken away.
  [[nodiscard]] std::shared_ptr<UvmFile> Find(int file) const;

  // Notes that the file's mappings are visible from now on. Call it before the driver can be asked
  // for any.
  void Expect(int file);
  // Adds a file that was expected and is not among these. `duplicate`: ours to keep.
  std::shared_ptr<UvmFile> Add(UniqueFd duplicate);

  void SetUser(UvmFile& file, std::shared_ptr<const os::Process> process, int number);
  [[nodiscard]] UvmFile::User UserOf(const UvmFile& file) const;

  // Return all files, and the inodes that their mappings show in /proc.
  [[nodiscard]] std::vector<std::shared_ptr<UvmFile>> All() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] os::InodeSet Inodes() const;

  // Takes the file out if only the caller holds it: no call on it can begin any more.
  [[nodiscard]] bool Take(const std::shared_ptr<UvmFile>& file);
  void PutBack(std::shared_ptr<UvmFile> file);

  // Hand-over to a later one, with PutBack() for each of All().
  [[nodiscard]] std::uint64_t next_key() const;
  void Adopt(std::uint64_t next_key, os::InodeSet inodes);

 private:
  // Orders by the kernel's order of open files, so that few comparisons find one.
  struct ByFile {
    using is_transparent = void;
    using Pointer = std::shared_ptr<UvmFile>;
    bool operator()(const Pointer& one, const Pointer& other) const {
      return os::Compare(one->file.get(), other->file.get()) < 0;
    }
    bool operator()(const Pointer& one, int other) const {
      return os::Compare(one->file.get(), other) < 0;
    }
    bool operator()(int one, const Pointer& other) const {
      return os::Compare(one, other->file.get()) < 0;
    }
  };

  mutable Mutex mutex_;  // guards the rest, and the user of each
  std::map<std::uint64_t, std::shared_ptr<UvmFile>> files_ CGPU_GUARDED_BY(mutex_);
  std::set<std::shared_ptr<UvmFile>, ByFile> by_file_ CGPU_GUARDED_BY(mutex_);
  os::InodeSet inodes_ CGPU_GUARDED_BY(mutex_);  // of every file that ever was here
  std::uint64_t next_key_ CGPU_GUARDED_BY(mutex_);
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_UVM_FILES_H_
