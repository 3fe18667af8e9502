// Makes answers of exporters for tests, as JSON in the form of src/exporter/overview.h.
#ifndef CGPU_FLEET_ANSWER_TESTING_H_
#define CGPU_FLEET_ANSWER_TESTING_H_

#include <optional>
#include <string>
#include <vector>

namespace cgpu::fleet {

inline std::string JoinForTest(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    all += (all.empty() ? "" : ",") + text;
  }
  return all;
}

// A quarter of its limit is in use. `share`: nothing is promised without it.
inline std::string MakePlace(const std::string& uuid, std::optional<double> share, double busy,
                             double waiting) {
  return R"({"limit":4000,"used":1000,"peak":2000,"refused":0,"share_max":1,"weight":1,)"
         R"("throttled_seconds":null,"high_priority":false,"uuid":")" +
         uuid + R"(","share":)" + (share ? std::to_string(*share) : "null") +
         R"(,"busy_seconds":)" + std::to_string(busy) + R"(,"waiting_seconds":)" +
         std::to_string(waiting) + "}";
}

// `pod`: of namespace n; empty: it is of no pod.
inline std::string MakeContainer(const std::string& id, const std::string& pod,
                                 const std::vector<std::string>& places) {
  return R"({"name":"k8s","container":"main","origin":"engine","mode":"cgpu","answers":true,)"
         R"("started":3,"calls":4,"refused_calls":null,"id":")" +
         id + R"(","namespace":")" + (pod.empty() ? "" : "n") + R"(","pod":")" + pod +
         R"(","gpus":[)" + JoinForTest(places) + "]}";
}

// An answer of a node with one GPU, G. `counted`: its counted seconds.
inline std::string MakeAnswer(double time, const std::vector<std::string>& containers,
                              double counted = 0) {
  const std::string when = std::to_string(time);
  return R"({"kind":"node","time":)" + when +
         R"(,"nodes":[{"name":"host","error":null,"version":"1","driver":"2","time":)" + when +
         R"(,"gpus":[{"uuid":"G","index":0,"model":"V100","pci":"0","healthy":true,)"
         R"("policy":null,"slices":1,"slices_max":20,"share_granted":0.5,"memory":{"total":9,)"
         R"("granted":8,"used":null,"free":null,"unmanaged":0},"busy_seconds":0,)"
         R"("counted_seconds":)" +
         std::to_string(counted) +
         R"(,"unmanaged_busy_seconds":0,"unmanaged_processes":0}],"containers":[)" +
         JoinForTest(containers) +
         R"(],"events":[{"time":"2026-01-01","kind":"started","sentence":"x"}]}]})";
}

}  // namespace cgpu::fleet

#endif  // CGPU_FLEET_ANSWER_TESTING_H_
