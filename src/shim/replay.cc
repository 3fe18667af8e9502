#include "shim/replay.h"

#include <algorithm>
#include <string>

#include "base/state.h"

namespace cgpu::shim {
namespace {

// Fields or records of each record, in their order.
enum ReplayTag : StateTag {
  kRecord = 1,  // a thread's in the order of its calls: kKey, kInput, kOutput
  kKey = 2,     // process, thread, instruction pointer, three arguments, error, answered
  kInput = 3,   // of each block of memory in turn: its bytes
  kOutput = 4,  // likewise
};

void SaveImage(StateWriter& writer, StateTag tag, const Image& image) {
  for (const std::vector<std::byte>& block : image) {
    std::string bytes(block.size(), '\0');
    std::ranges::transform(block, bytes.begin(),
                           [](std::byte byte) { return static_cast<char>(byte); });
    writer.Begin(tag);
    writer.Text(bytes);
    writer.End();
  }
}

void LoadBlock(StateReader& reader, Image& image) {
  const std::string bytes = reader.Text();
  std::vector<std::byte>& block = image.emplace_back(bytes.size());
  std::ranges::transform(bytes, block.begin(),
                         [](char byte) { return static_cast<std::byte>(byte); });
}

ReplayRecord LoadRecord(StateReader& reader) {
  ReplayRecord record;
  while (const auto tag = reader.Enter()) {
    switch (*tag) {
      case kKey:
        record.key.process = reader.Number();
        record.key.tid = reader.As<pid_t>();
        record.key.ip = reader.Number();
        for (std::uint64_t& argument : record.key.args) {
          argument = reader.Number();
        }
        record.error = reader.As<int>();
        record.answered = reader.Flag();
        break;
      case kInput:
        LoadBlock(reader, record.input);
        break;
      case kOutput:
        LoadBlock(reader, record.output);
        break;
      default:
        reader.Unknown(*tag);
        break;
    }
    reader.Leave();
  }
  return record;
}

}  // namespace

const ReplayRecord* ReplayLog::Find(const ReplayKey& key, const Image& now) const {
  const auto thread = threads_.find(key.tid);
  if (thread == threads_.end()) {
    return nullptr;
  }
  const auto found = std::ranges::find_if(thread->second, [&](const ReplayRecord& record) {
    return record.key == key && ((!record.answered && record.input == now) || record.output == now);
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

void ReplayLog::Save(StateWriter& writer) const {
  for (const auto& [tid, records] : threads_) {
    for (const ReplayRecord& record : records) {
      writer.Begin(kRecord);
      const auto& args = record.key.args;
      writer.Row(kKey, record.key.process, tid, record.key.ip, args[0], args[1], args[2],
                 record.error, record.answered);
      SaveImage(writer, kInput, record.input);
      SaveImage(writer, kOutput, record.output);
      writer.End();
    }
  }
}

Result<> ReplayLog::Load(StateReader& reader) {
  reader.ForEach([&](StateTag tag) {
    if (tag == kRecord) {
      Add(LoadRecord(reader));
    }
    return tag == kRecord;
  });
  return reader.Finish();
}

}  // namespace cgpu::shim
