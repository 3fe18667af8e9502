#include "sim/node/accounting_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cgpu::sim {
namespace {

using nlohmann::json;

// Returns the engines' counts under a key; zeros if they do not know it.
template <class T>
T Of(const std::vector<T>& all, GpuKey key) {
  const auto found =
      std::find_if(all.begin(), all.end(), [key](const T& one) { return one.key == key; });
  return key == 0 || found == all.end() ? T() : *found;
}

json GroupReply(const GroupAccounting& group, const EngineAccounting& engines) {
  const wire::GroupAccounting work = Of(engines.groups, group.key);
  const auto fault = engines.faults.find(group.key);
  return {{"client", group.client},
          {"handle", group.handle},
          {"copy", group.copy},
          {"pid", group.pid},
          {"engine_type", group.engine_type},
          {"timeslice_us", group.timeslice_us},
          {"interleave", group.interleave},
          {"preemptions", group.preemptions},
          {"preemption_mode", group.preemption_mode},
          {"scheduled", group.scheduled},
          {"key", group.key},
          {"gpu_time_ns", work.gpu_time_ns},
          {"switches", work.switches},
          {"kernels", work.kernels},
          {"copied_bytes", work.copied_bytes},
          {"slice_ns", work.slice_ns},
          {"running", work.running != 0},
          {"fault", fault == engines.faults.end() ? 0 : fault->second}};
}

json ChannelReply(const ChannelAccounting& channel, const EngineAccounting& engines) {
  const wire::ChannelAccounting work = Of(engines.channels, channel.key);
  return {{"client", channel.client},
          {"handle", channel.handle},
          {"pid", channel.pid},
          {"runlist", channel.runlist},
          {"id", channel.id},
          {"scheduled", channel.scheduled},
          {"disabled", channel.disabled},
          {"stopped", channel.stopped},
          {"hung", channel.hung},
          {"gp_get", work.gp_get},
          {"gp_put", work.gp_put},
          {"kernels", work.kernels},
          {"copied_bytes", work.copied_bytes},
          {"waiting", work.waiting != 0},
          {"ignored_methods", work.ignored_methods}};
}

json GpuReply(const Gpu& gpu, const GpuAccounting& accounting, const EngineAccounting& engines) {
  json groups = json::array();
  for (const GroupAccounting& group : accounting.groups) {
    groups.push_back(GroupReply(group, engines));
  }
  json channels = json::array();
  for (const ChannelAccounting& channel : accounting.channels) {
    channels.push_back(ChannelReply(channel, engines));
  }
  json runlists = json::array();
  for (const wire::RunlistAccounting& runlist : engines.runlists) {
    if (runlist.gpu == gpu.index) {
      runlists.push_back({{"runlist", runlist.runlist},
                          {"busy_ns", runlist.busy_ns},
                          {"switching_ns", runlist.switching_ns},
                          {"idle_ns", runlist.idle_ns},
                          {"switches", runlist.switches},
                          {"restarts", runlist.restarts}});
    }
  }
  json starts = json::array();
  for (const auto& [on, start] : engines.starts) {
    if (on == static_cast<int>(gpu.index)) {
      starts.push_back({{"number", start.number},
                        {"group", start.group},
                        {"visible_ns", start.visible_ns},
                        {"start_ns", start.start_ns},
                        {"switched", start.switched != 0}});
    }
  }
  return {{"index", gpu.index},
          {"uuid", gpu.UuidText()},
          {"model", gpu.model->key},
          {"memory_bytes", gpu.memory_bytes},
          {"used_bytes", accounting.used_bytes},
          {"bar1_bytes", accounting.bar1_bytes},
          {"bar1_used_bytes", accounting.bar1_used_bytes},
          {"encoder_sessions", accounting.encoder_sessions},
          {"cuda_limit", accounting.cuda_limit},
          {"ecc_corrected", accounting.ecc.corrected},
          {"ecc_uncorrected", accounting.ecc.uncorrected},
          {"groups", std::move(groups)},
          {"channels", std::move(channels)},
          {"runlists", std::move(runlists)},
          {"starts", std::move(starts)}};
}

const char* KindName(UvmRangeKind kind) {
  switch (kind) {
    case UvmRangeKind::kExternal:
      return "external";
    case UvmRangeKind::kChannel:
      return "channel";
    case UvmRangeKind::kDynamicParallelism:
      return "dynamic_parallelism";
    case UvmRangeKind::kSemaphorePool:
      return "semaphore_pool";
    case UvmRangeKind::kDeviceP2p:
      return "device_p2p";
  }
  return "";
}

json RangeReply(const UvmRangeAccounting& range) {
  json pieces = json::array();
  for (const UvmPieceAccounting& piece : range.pieces) {
    json entry = {{"base", piece.base},
                  {"length", piece.length},
                  {"gpu", piece.gpu},
                  {"page_size", piece.page_size},
                  {"sparse", piece.sparse}};
    if (!piece.sparse) {
      entry["memory_gpu"] = piece.memory_gpu;
      entry["memory_bytes"] = piece.memory_bytes;
    }
    pieces.push_back(std::move(entry));
  }
  return {{"kind", KindName(range.kind)},
          {"base", range.base},
          {"length", range.length},
          {"pieces", std::move(pieces)}};
}

void AddUvm(const UvmGpuAccounting& gpu, json& object) {
  object["managed_bytes"] = gpu.managed_bytes;
  object["managed_overcommit"] = gpu.managed_overcommit;
  object["page_table_bytes"] = gpu.table_bytes;
  object["system_page_table_bytes"] = gpu.system_table_bytes;
}

// An object per initialised file of nvidia-uvm.
json UvmFilesReply(const UvmAccounting& accounting) {
  json files = json::array();
  for (const UvmFileAccounting& file : accounting.files) {
    json gpus = json::array();
    for (const auto& [index, gpu] : file.gpus) {
      json entry = {{"index", index}};
      AddUvm(gpu, entry);
      gpus.push_back(std::move(entry));
    }
    json ranges = json::array();
    for (const UvmRangeAccounting& range : file.ranges) {
      ranges.push_back(RangeReply(range));
    }
    json managed = json::array();
    for (const UvmManagedAccounting& range : file.managed) {
      managed.push_back({{"base", range.base},
                         {"length", range.length},
                         {"pid", range.pid},
                         {"zombie", range.zombie}});
    }
    files.push_back({{"file", file.file},
                     {"pid", file.pid},
                     {"flags", file.flags},
                     {"registered_gpus", file.registered},
                     {"vaspaces", file.vaspaces},
                     {"channels", file.channels},
                     {"range_groups", file.range_groups},
                     {"gpus", std::move(gpus)},
                     {"managed", std::move(managed)},
                     {"ranges", std::move(ranges)}});
  }
  return files;
}

// The mmaps that the driver would have refused.
json UvmRefusedReply(const UvmAccounting& accounting) {
  json refused = json::array();
  for (const UvmRefusedAccounting& entry : accounting.refused) {
    refused.push_back({{"file", entry.mapping.file},
                       {"pid", entry.mapping.owner.tgid},
                       {"base", entry.mapping.start},
                       {"length", entry.mapping.end - entry.mapping.start},
                       {"offset", entry.mapping.offset},
                       {"why", entry.why}});
  }
  return refused;
}

}  // namespace

std::string AccountingJson(const Driver& driver, const GpuLink& link,
                           const AllAccounting& accounting) {
  json reply = {{"driver", driver.VersionText()},
                {"gpus", json::array()},
                {"clients", json::array()},
                {"uvm", UvmFilesReply(accounting.uvm)},
                {"uvm_refused_mappings", UvmRefusedReply(accounting.uvm)},
                {"engines",
                 {{"pid", link.Pid()},
                  {"alive", accounting.engines.alive},
                  {"answer", accounting.engines_answer},
                  {"context_switch_us", link.Options().context_switch_us},
                  {"preempt_us", link.Options().preempt_us},
                  {"copy_gbps", link.Options().copy_gbps}}},
                {"longest_idle_us", accounting.driver.longest_idle_us},
                {"kernel",
                 {{"os_events", accounting.driver.kernel.os_events},
                  {"shared_with", accounting.driver.kernel.shared_with},
                  {"share_policies", accounting.driver.kernel.share_policies},
                  {"registered_spaces", accounting.driver.kernel.registered_spaces},
                  {"mapper_places", accounting.driver.kernel.mapper_places}}},
                {"stray_writes", accounting.driver.stray_writes},
                {"leaked_mappings", accounting.driver.leaked_mappings},
                {"received", json::object()},
                {"refused", json::object()}};
  for (const Gpu& gpu : driver.Gpus()) {
    reply["gpus"].push_back(GpuReply(gpu, accounting.driver.gpus[gpu.index], accounting.engines));
    json& entry = reply["gpus"].back();
    const auto found = accounting.uvm.gpus.find(static_cast<int>(gpu.index));
    UvmGpuAccounting uvm = found == accounting.uvm.gpus.end() ? UvmGpuAccounting{} : found->second;
    uvm.table_bytes += accounting.driver.gpus[gpu.index].page_table_bytes;
    AddUvm(uvm, entry);
  }
  for (const ClientAccounting& client : accounting.driver.clients) {
    reply["clients"].push_back({{"handle", client.handle},
                                {"pid", client.pid},
                                {"files", client.files},
                                {"objects", client.objects},
                                {"bytes", client.bytes}});
  }
  for (const auto& [name, count] : accounting.counts) {
    reply["received"][name] = count.received;
    if (count.refused != 0) {
      reply["refused"][name] = count.refused;
    }
  }
  return reply.dump();
}

std::string ObjectsJson(const std::vector<ObjectName>& objects) {
  json reply = json::array();
  for (const ObjectName& object : objects) {
    reply.push_back({object.client, object.handle, object.parent, object.cls});
  }
  return reply.dump();
}

}  // namespace cgpu::sim
