// Metrics on their way into Prometheus' text format. Pure.
#ifndef CGPU_EXPORTER_FAMILIES_H_
#define CGPU_EXPORTER_FAMILIES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cgpu::exporter {

enum class Kind : std::uint8_t { kGauge, kCounter, kHistogram };

// Names and values. A value may be any text: Families makes it safe.
using Labels = std::vector<std::pair<std::string, std::string>>;

class Families {
 public:
  Families();
  Families(const Families&) = delete;
  Families& operator=(const Families&) = delete;
  ~Families();

  // Begins a metric. It appears even without a series.
  void Begin(Kind kind, std::string name, std::string help);
  // Adds a series to the metric that was begun last: a gauge or a counter.
  void Add(const Labels& labels, double value);

  // Adds a series to the histogram that was begun last. `buckets`: values up to each bound, those
  // up to a lower one included.
  void AddHistogram(const Labels& labels,
                    const std::vector<std::pair<double, std::uint64_t>>& buckets,
                    std::uint64_t count, double sum);

  // Returns the text; nothing is left.
  [[nodiscard]] std::string TakeText();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cgpu::exporter

#endif  // CGPU_EXPORTER_FAMILIES_H_
