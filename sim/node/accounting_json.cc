#include "sim/node/accounting_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/node/uvm_json.h"

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

json GroupReply(const GroupAccounting& group, const GpuAccounting& gpu) {
  const wire::GroupAccounting work = Of(gpu.groups, group.key);
  const auto fault = gpu.faults.find(group.key);
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
          {"fault", fault == gpu.faults.end() ? 0 : fault->second}};
}

json ChannelReply(const ChannelAccounting& channel, const GpuAccounting& gpu) {
  const wire::ChannelAccounting work = Of(gpu.channels, channel.key);
  return {{"client", channel.client},
          {"handle", channel.handle},
          {"pid", channel.pid},
          {"runlist", channel.runlist},
          {"id", channel.id},
          {"scheduled", channel.scheduled},
          {"disabled", channel.disabled},
          {"stopped", channel.stopped},
          {"gp_get", work.gp_get},
          {"gp_put", work.gp_put},
          {"kernels", work.kernels},
          {"copied_bytes", work.copied_bytes},
          {"waiting", work.waiting != 0},
          {"ignored_methods", work.ignored_methods}};
}

json CardReply(const Card& card, const CardAccounting& accounting, const GpuAccounting& gpu) {
  json groups = json::array();
  for (const GroupAccounting& group : accounting.groups) {
    groups.push_back(GroupReply(group, gpu));
  }
  json channels = json::array();
  for (const ChannelAccounting& channel : accounting.channels) {
    channels.push_back(ChannelReply(channel, gpu));
  }
  json runlists = json::array();
  for (const wire::RunlistAccounting& runlist : gpu.runlists) {
    if (runlist.card == card.index) {
      runlists.push_back({{"runlist", runlist.runlist},
                          {"busy_ns", runlist.busy_ns},
                          {"switching_ns", runlist.switching_ns},
                          {"idle_ns", runlist.idle_ns},
                          {"switches", runlist.switches}});
    }
  }
  json starts = json::array();
  for (const auto& [on, start] : gpu.starts) {
    if (on == static_cast<int>(card.index)) {
      starts.push_back({{"number", start.number},
                        {"group", start.group},
                        {"visible_ns", start.visible_ns},
                        {"start_ns", start.start_ns},
                        {"switched", start.switched != 0}});
    }
  }
  return {{"index", card.index},
          {"uuid", card.UuidText()},
          {"model", card.model->key},
          {"memory_bytes", card.memory_bytes},
          {"used_bytes", accounting.used_bytes},
          {"page_table_bytes", accounting.page_table_bytes},
          {"bar1_bytes", accounting.bar1_bytes},
          {"bar1_used_bytes", accounting.bar1_used_bytes},
          {"encoder_sessions", accounting.encoder_sessions},
          {"cuda_limit", accounting.cuda_limit},
          {"groups", std::move(groups)},
          {"channels", std::move(channels)},
          {"runlists", std::move(runlists)},
          {"starts", std::move(starts)}};
}

}  // namespace

std::string AccountingJson(const Driver& driver, const GpuLink& link,
                           const AllAccounting& accounting) {
  json reply = {{"driver", driver.VersionText()},
                {"gpus", json::array()},
                {"clients", json::array()},
                {"uvm", json::parse(UvmFilesJson(accounting.uvm))},
                {"uvm_refused_mappings", json::parse(UvmRefusedJson(accounting.uvm))},
                {"engines",
                 {{"pid", link.Pid()},
                  {"alive", accounting.gpu.alive},
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
                {"received", json::object()},
                {"refused", json::object()}};
  for (const Card& card : driver.Cards()) {
    reply["gpus"].push_back(CardReply(card, accounting.driver.cards[card.index], accounting.gpu));
    json& gpu = reply["gpus"].back();
    const auto of_rm = gpu["page_table_bytes"].get<std::uint64_t>();
    gpu.update(json::parse(UvmCardJson(accounting.uvm, static_cast<int>(card.index))));
    gpu["page_table_bytes"] = of_rm + gpu["page_table_bytes"].get<std::uint64_t>();
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

}  // namespace cgpu::sim
