// Answers of the driver and of its accounting about processes and memory.
#include <algorithm>

#include "rm/nv_classes.h"
#include "sim/model/driver_model.h"

namespace cgpu::sim {
namespace {

void AddToGpu(const Client& client, const Object& object, GpuAccounting& gpu) {
  gpu.cuda_limit = gpu.cuda_limit || object.cuda_limit;
  if (object.kind == ObjectKind::kChannelGroup) {
    GroupAccounting entry;
    entry.key = object.group->on_gpu == nullptr ? 0 : object.group->on_gpu->Key();
    entry.client = client.handle;
    entry.handle = object.handle;
    entry.copy = !object.original;
    entry.pid = client.identity.tgid;
    entry.engine_type = object.group->runlist;
    entry.timeslice_us = object.group->timeslice_us;
    entry.interleave = object.group->interleave;
    entry.preemptions = object.group->preemptions;
    entry.preemption_mode = object.group->preemption_mode;
    entry.scheduled = object.group->scheduled;
    gpu.groups.push_back(entry);
  }
  if (object.kind == ObjectKind::kChannel) {
    ChannelAccounting entry;
    entry.key = object.on_gpu == nullptr ? 0 : object.on_gpu->Key();
    entry.client = client.handle;
    entry.handle = object.handle;
    entry.pid = client.identity.tgid;
    entry.runlist = object.channel_id->Runlist();
    entry.id = object.channel_id->Number();
    entry.scheduled = object.scheduled;
    entry.disabled = object.disabled;
    entry.stopped = object.stopped;
    entry.hung = object.hung;
    gpu.channels.push_back(entry);
  }
}

}  // namespace

// gpu_rmapi.c _gpuCollectMemInfo().
MemoryUse DriverModel::UseOf(std::uint32_t tgid, int gpu) const {
  MemoryUse use;
  for (const auto& [handle, client] : clients_) {
    if (client.identity.tgid != tgid) {
      continue;
    }
    for (const auto& [object_handle, object] : client.objects) {
      if (object.block == nullptr || object.block->gpu != gpu || object.block->registers) {
        continue;
      }
      if (object.block.use_count() == 1) {
        use.memory_private += object.block->length;
      } else if (object.original) {
        use.shared_owned += object.block->length;
      } else {
        use.shared_duped += object.block->length;
      }
    }
  }
  return use;
}

// gpu_rmapi.c gpuGetProcWithObject().
std::vector<std::uint32_t> DriverModel::ProcessesOn(int gpu, rm::NvU32 cls) const {
  std::vector<std::uint32_t> pids;
  for (const auto& [handle, client] : clients_) {
    const auto is_here = [gpu](const auto& entry) {
      return entry.second.kind == ObjectKind::kSubdevice && entry.second.gpu == gpu;
    };
    const auto of_class = [gpu, cls](const auto& entry) {
      return entry.second.kind == ObjectKind::kEngine && entry.second.cls == cls &&
             entry.second.gpu == gpu;
    };
    const bool listed = cls == rm::NV20_SUBDEVICE_0
                            ? std::any_of(client.objects.begin(), client.objects.end(), is_here)
                            : std::any_of(client.objects.begin(), client.objects.end(), of_class);
    const std::uint32_t tgid = client.identity.tgid;
    if (listed && std::find(pids.begin(), pids.end(), tgid) == pids.end()) {
      pids.push_back(tgid);
    }
  }
  return pids;
}

KernelAccounting DriverModel::InKernel() const {
  KernelAccounting kernel;
  kernel.os_events = os_events_.size();
  for (const auto& [handle, client] : clients_) {
    kernel.shared_with += client.shared_with.size();
    for (const auto& [object_handle, object] : client.objects) {
      kernel.share_policies += object.share ? object.share->size() : 0;
      kernel.registered_spaces += object.registered.size();
      kernel.mapper_places += object.queue;
    }
  }
  return kernel;
}

std::optional<rm::NvU32> DriverModel::ResidentChannel(int gpu) const {
  const Accounting accounting = GetAccounting();
  for (const ChannelAccounting& channel : accounting.gpus[static_cast<std::size_t>(gpu)].channels) {
    if (channel.scheduled && !channel.disabled && !channel.stopped) {
      return channel.id;
    }
  }
  return std::nullopt;
}

std::vector<ObjectName> DriverModel::Objects() const {
  std::vector<ObjectName> objects;
  for (const auto& [handle, client] : clients_) {
    for (const auto& [object_handle, object] : client.objects) {
      objects.push_back({handle, object_handle, object.parent, object.cls});
    }
  }
  return objects;
}

Accounting DriverModel::GetAccounting() const {
  Accounting accounting;
  accounting.longest_idle_us = longest_idle_us_;
  accounting.kernel = InKernel();
  accounting.stray_writes = stray_writes_;
  accounting.leaked_mappings = leaked_.size();
  accounting.gpus.resize(gpus_.size());
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    accounting.gpus[i].used_bytes = memory_[i]->Used();
    accounting.gpus[i].bar1_bytes = bar1_[i]->Total();
    accounting.gpus[i].bar1_used_bytes = bar1_[i]->Used();
    accounting.gpus[i].encoder_sessions = encoders_[i].Taken();
    accounting.gpus[i].ecc = ecc_[i];
  }
  // A block counts for the client that allocated it; when that object is gone, for the first
  // holder.
  std::map<const Block*, rm::NvHandle> holder;
  std::set<std::shared_ptr<PageTables>> tables;
  for (const auto& [handle, client] : clients_) {
    for (const auto& [object_handle, object] : client.objects) {
      if (object.block != nullptr) {
        if (object.original) {
          holder[object.block.get()] = handle;
        } else {
          holder.try_emplace(object.block.get(), handle);
        }
      }
      if (object.gpu >= 0) {
        AddToGpu(client, object, accounting.gpus[static_cast<std::size_t>(object.gpu)]);
      }
      if (object.tables != nullptr && object.gpu >= 0 && tables.insert(object.tables).second) {
        accounting.gpus[static_cast<std::size_t>(object.gpu)].page_table_bytes +=
            object.tables->Bytes();
      }
    }
  }
  std::map<rm::NvHandle, rm::NvU64> bytes;
  for (const auto& [block, owner] : holder) {
    bytes[owner] += block->charge.Bytes();
  }
  for (const auto& [handle, client] : clients_) {
    ClientAccounting entry;
    entry.handle = handle;
    entry.pid = client.identity.tgid;
    entry.files = 1 + files_.at(client.file).registered.size();
    entry.objects = client.objects.size();
    entry.bytes = bytes[handle];
    accounting.clients.push_back(entry);
  }
  return accounting;
}

}  // namespace cgpu::sim
