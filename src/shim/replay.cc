#include "shim/replay.h"

#include <algorithm>

namespace cgpu::shim {

const ReplayRecord* ReplayLog::Find(const ReplayKey& key, const Image& now) const {
  const auto thread = threads_.find(key.tid);
  if (thread == threads_.end()) {
    return nullptr;
  }
  const auto found =
      std::find_if(thread->second.begin(), thread->second.end(), [&](const ReplayRecord& record) {
        return record.key == key &&
               ((!record.answered && record.input == now) || record.output == now);
      });
  return found == thread->second.end() ? nullptr : &*found;
}

void ReplayLog::Add(ReplayRecord record) {
  auto& records = threads_[record.key.tid];
  std::erase_if(records, [&](const ReplayRecord& old) {
    return old.key == record.key || old.key.process != record.key.process;
  });
  if (records.size() >= kPerThread) {
    records.erase(records.begin());
  }
  records.push_back(std::move(record));
}

void ReplayLog::Begin(const ReplayKey& key) {
  const auto thread = threads_.find(key.tid);
  if (thread == threads_.end()) {
    return;
  }
  std::erase_if(thread->second, [&](const ReplayRecord& record) {
    return record.answered && !(record.key == key);
  });
  if (thread->second.empty()) {
    threads_.erase(thread);
  }
}

void ReplayLog::Answered(const ReplayKey& key) {
  if (const auto thread = threads_.find(key.tid); thread != threads_.end()) {
    for (ReplayRecord& record : thread->second) {
      record.answered = record.answered || record.key == key;
    }
  }
}

void ReplayLog::DropProcess(std::uint64_t process) {
  for (auto thread = threads_.begin(); thread != threads_.end();) {
    std::erase_if(thread->second,
                  [&](const ReplayRecord& record) { return record.key.process == process; });
    thread = thread->second.empty() ? threads_.erase(thread) : std::next(thread);
  }
}

}  // namespace cgpu::shim
