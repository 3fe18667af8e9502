#include "shim/uvm_files.h"

#include <utility>

namespace cgpu::shim {

std::shared_ptr<UvmFile> UvmFiles::Find(int file) const {
  const MutexLock lock(mutex_);
  const auto found = by_file_.find(file);
  return found == by_file_.end() ? nullptr : *found;
}

void UvmFiles::Expect(int file) {
  if (const auto identity = os::Identify(file); identity.ok()) {
    const MutexLock lock(mutex_);
    inodes_.insert({identity->dev, identity->ino});
  }
}

std::shared_ptr<UvmFile> UvmFiles::Add(UniqueFd duplicate) {
  auto file = std::make_shared<UvmFile>();
  file->file = std::move(duplicate);
  const MutexLock lock(mutex_);
  file->key = next_key_++;
  files_[file->key] = file;
  by_file_.insert(file);
  return file;
}

void UvmFiles::SetUser(UvmFile& file, std::shared_ptr<const os::Process> process, int number) {
  const MutexLock lock(mutex_);
  file.user_ = {std::move(process), number};
}

UvmFile::User UvmFiles::UserOf(const UvmFile& file) const {
  const MutexLock lock(mutex_);
  return file.user_;
}

std::vector<std::shared_ptr<UvmFile>> UvmFiles::All() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<UvmFile>> all;
  all.reserve(files_.size());
  for (const auto& [key, file] : files_) {
    all.push_back(file);
  }
  return all;
}

std::size_t UvmFiles::size() const {
  const MutexLock lock(mutex_);
  return files_.size();
}

os::InodeSet UvmFiles::Inodes() const {
  const MutexLock lock(mutex_);
  return inodes_;
}

bool UvmFiles::Take(const std::shared_ptr<UvmFile>& file) {
  const MutexLock lock(mutex_);
  const auto found = files_.find(file->key);
  constexpr long kOursAndTheTables = 3;
  if (found == files_.end() || found->second.use_count() > kOursAndTheTables) {
    return false;
  }
  by_file_.erase(file);
  files_.erase(found);
  return true;
}

std::uint64_t UvmFiles::next_key() const {
  const MutexLock lock(mutex_);
  return next_key_;
}

void UvmFiles::Adopt(std::uint64_t next_key, os::InodeSet inodes) {
  const MutexLock lock(mutex_);
  next_key_ = next_key;
  inodes_ = std::move(inodes);
}

void UvmFiles::PutBack(std::shared_ptr<UvmFile> file) {
  const MutexLock lock(mutex_);
  by_file_.insert(file);
  files_[file->key] = std::move(file);
}

}  // namespace cgpu::shim
