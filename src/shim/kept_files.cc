#include "shim/kept_files.h"

#include <utility>

namespace cgpu::shim {

KeptFiles::Pointer KeptFiles::Find(int file) const {
  const MutexLock lock(mutex_);
  const auto found = by_file_.find(file);
  return found == by_file_.end() ? nullptr : *found;
}

KeptFiles::Pointer KeptFiles::Get(std::uint64_t key) const {
  const MutexLock lock(mutex_);
  const auto found = files_.find(key);
  return found == files_.end() ? nullptr : found->second;
}

KeptFiles::Pointer KeptFiles::Add(UniqueFd duplicate) {
  auto file = std::make_shared<KeptFile>();
  file->file = std::move(duplicate);
  const MutexLock lock(mutex_);
  file->key = next_key_++;
  files_[file->key] = file;
  by_file_.insert(file);
  return file;
}

void KeptFiles::SetUser(KeptFile& file, std::shared_ptr<const os::Process> process, int number) {
  const MutexLock lock(mutex_);
  file.user_ = {std::move(process), number};
}

KeptFile::User KeptFiles::UserOf(const KeptFile& file) const {
  const MutexLock lock(mutex_);
  return file.user_;
}

std::vector<KeptFiles::Pointer> KeptFiles::All() const {
  const MutexLock lock(mutex_);
  std::vector<Pointer> all;
  all.reserve(files_.size());
  for (const auto& [key, file] : files_) {
    all.push_back(file);
  }
  return all;
}

std::size_t KeptFiles::size() const {
  const MutexLock lock(mutex_);
  return files_.size();
}

bool KeptFiles::InUse(const KeptFile& file) const {
  const KeptFile::User user = UserOf(file);
  return user.process && os::HasFileAt(*user.process, user.number, file.file.get());
}

std::vector<KeptFiles::Pointer> KeptFiles::LeftBehind(
    int proc, const std::function<std::vector<pid_t>()>& processes,
    const std::function<bool()>& enough) {
  auto files = All();
  std::erase_if(files, [this](const auto& file) { return InUse(*file); });
  if (files.empty()) {
    return files;
  }
  std::vector<int> wanted;
  wanted.reserve(files.size());
  for (const auto& file : files) {
    wanted.push_back(file->file.get());
  }
  const auto held = os::FindHeld(proc, processes(), wanted, enough);
  if (!held) {
    return {};
  }
  std::vector<Pointer> left;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if ((*held)[i].thread == 0) {
      left.push_back(std::move(files[i]));
    } else if (auto user = os::ProcessOf((*held)[i].thread)) {
      SetUser(*files[i], std::move(user), (*held)[i].number);
    }
  }
  return left;
}

bool KeptFiles::Take(const Pointer& file) {
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

void KeptFiles::PutBack(Pointer file) {
  const MutexLock lock(mutex_);
  by_file_.insert(file);
  files_[file->key] = std::move(file);
}

std::uint64_t KeptFiles::next_key() const {
  const MutexLock lock(mutex_);
  return next_key_;
}

void KeptFiles::SetNextKey(std::uint64_t key) {
  const MutexLock lock(mutex_);
  next_key_ = key;
}

void UvmFiles::Expect(int file) {
  if (const auto identity = os::Identify(file); identity.ok()) {
    const MutexLock lock(inodes_mutex_);
    inodes_.insert({identity->dev, identity->ino});
  }
}

os::InodeSet UvmFiles::Inodes() const {
  const MutexLock lock(inodes_mutex_);
  return inodes_;
}

void UvmFiles::Adopt(os::InodeSet inodes) {
  const MutexLock lock(inodes_mutex_);
  inodes_ = std::move(inodes);
}

}  // namespace cgpu::shim
