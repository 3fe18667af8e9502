#include "exporter/families.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <sstream>

#include "exporter/label.h"

namespace cgpu::exporter {
namespace {

constexpr std::array kTypes = {prometheus::MetricType::Gauge, prometheus::MetricType::Counter,
                               prometheus::MetricType::Histogram};

prometheus::ClientMetric& AddSeries(prometheus::MetricFamily& family, const Labels& labels) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label.reserve(labels.size());
  for (const auto& [name, text] : labels) {
    metric.label.push_back({name, SafeLabel(text)});
  }
  return metric;
}

}  // namespace

struct Families::State {
  // Writes the metric that was begun last. So one at a time is in memory beside the text.
  void Write() { prometheus::TextSerializer().Serialize(text, {std::exchange(family, {})}); }

  std::ostringstream text;
  prometheus::MetricFamily family;
  bool begun = false;
};

Families::Families() : state_(std::make_unique<State>()) {}
Families::~Families() = default;

void Families::Begin(Kind kind, std::string name, std::string help) {
  if (std::exchange(state_->begun, true)) {
    state_->Write();
  }
  state_->family = {std::move(name), std::move(help), kTypes[static_cast<std::size_t>(kind)], {}};
}

void Families::Add(const Labels& labels, double value) {
  prometheus::MetricFamily& family = state_->family;
  prometheus::ClientMetric& metric = AddSeries(family, labels);
  if (family.type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

void Families::AddHistogram(const Labels& labels,
                            const std::vector<std::pair<double, std::uint64_t>>& buckets,
                            std::uint64_t count, double sum) {
  prometheus::ClientMetric& metric = AddSeries(state_->family, labels);
  metric.histogram.sample_count = count;
  metric.histogram.sample_sum = sum;
  for (const auto& [bound, up_to] : buckets) {
    metric.histogram.bucket.push_back({up_to, bound});
  }
}

std::string Families::TakeText() {
  if (std::exchange(state_->begun, false)) {
    state_->Write();
  }
  return std::move(state_->text).str();
}

}  // namespace cgpu::exporter
