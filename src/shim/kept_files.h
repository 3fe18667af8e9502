// Open files of tenants, each with a duplicate of ours.
//
// Open files have no names. With a duplicate, the shim recognises a tenant's file by comparing it
// (kcmp), the file stays until the shim closes it, and the shim can make requests of its own on it
// when no process of the container has it any more. No process has a file that is on its way
// through a socket.
#ifndef CGPU_SHIM_KEPT_FILES_H_
#define CGPU_SHIM_KEPT_FILES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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

struct KeptFile {
  std::uint64_t key = 0;
  UniqueFd file;

  // The last user, and its number of the file: the first place to look.
  struct User {
    std::shared_ptr<const os::Process> process;
    int number = -1;
  };

 private:
  friend class KeptFiles;
  User user_;
};

// Thread-safe.
class KeptFiles {
 public:
  using Pointer = std::shared_ptr<KeptFile>;

  explicit KeptFiles(std::uint64_t first_key) : next_key_(first_key) {}

  // Return null if it is not one of these. A holder of the result keeps it from being taken away.
  [[nodiscard]] Pointer Find(int file) const;
  [[nodiscard]] Pointer Get(std::uint64_t key) const;

  // Adds a file that is not among these. `duplicate`: ours to keep.
  Pointer Add(UniqueFd duplicate);

  void SetUser(KeptFile& file, std::shared_ptr<const os::Process> process, int number);
  [[nodiscard]] KeptFile::User UserOf(const KeptFile& file) const;

  [[nodiscard]] std::vector<Pointer> All() const;
  [[nodiscard]] std::size_t size() const;

  // Returns true if the file's last user has it under the same number.
  [[nodiscard]] bool InUse(const KeptFile& file) const;
  // Returns the files that no process has. `proc`: an open /proc. `processes` returns the numbers
  // of those that may have one; it is asked only where a file's last user has it no more, and who
  // has it then is its last user. Stops when `enough` returns true, and then returns none.
  [[nodiscard]] std::vector<Pointer> LeftBehind(
      int proc, const std::function<std::vector<pid_t>()>& processes,
      const std::function<bool()>& enough);

  // Takes the file out if only the caller holds it: no call on it can begin any more.
  [[nodiscard]] bool Take(const Pointer& file);
  void PutBack(Pointer file);

  // Hand-over to a later one that has the same keys, with PutBack() for each of All().
  [[nodiscard]] std::uint64_t next_key() const;
  void SetNextKey(std::uint64_t key);

 private:
  // Orders by the kernel's order of open files, so that few comparisons find one.
  struct ByFile {
    using is_transparent = void;
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
  std::map<std::uint64_t, Pointer> files_ CGPU_GUARDED_BY(mutex_);
  std::set<Pointer, ByFile> by_file_ CGPU_GUARDED_BY(mutex_);
  std::uint64_t next_key_ CGPU_GUARDED_BY(mutex_);
};

// The files of nvidia-uvm that tenants have initialised; a key is that of the space in boundary and
// ledger. UVM's address spaces cannot be asked about from outside. The shim gives back what is in
// one by requests of its own, whose answers the ledger can trust. Thread-safe.
class UvmFiles : public KeptFiles {
 public:
  // Most files. A process has one or two.
  static constexpr std::size_t kMost = 1024;

  using KeptFiles::KeptFiles;

  // Note the file's inode, and return all: an earlier version that takes over finds managed memory
  // by them (handover.h).
  void Expect(int file);
  [[nodiscard]] os::InodeSet Inodes() const;

  // Hand-over to a later one, with that of the files.
  void Adopt(os::InodeSet inodes);

 private:
  mutable Mutex inodes_mutex_;                          // taken alone
  os::InodeSet inodes_ CGPU_GUARDED_BY(inodes_mutex_);  // of every file that ever was here
};

}  // namespace cgpu::shim

#endif  // CGPU_SHIM_KEPT_FILES_H_
