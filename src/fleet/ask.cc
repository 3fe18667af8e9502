#include "fleet/ask.h"

#include <curl/curl.h>

#include <bit>
#include <memory>
#include <utility>

namespace cgpu::fleet {
namespace {

constexpr long kConnections = 256;  // at a time; the next ones wait
constexpr int kLongestWaitMs = 1000;

// One question and what has come of its answer.
struct Question {
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl{nullptr, curl_easy_cleanup};
  std::string text;
  std::size_t most = 0;                // bytes
  std::size_t* left_of_all = nullptr;  // bytes
  bool too_long = false;
  CURLcode code = CURLE_OPERATION_TIMEDOUT;
};

std::size_t Take(char* bytes, std::size_t, std::size_t size, void* argument) {
  Question& question = *static_cast<Question*>(argument);
  if (size > question.most - question.text.size() || size > *question.left_of_all) {
    question.too_long = true;
    return 0;
  }
  *question.left_of_all -= size;
  question.text.append(bytes, size);
  return size;
}

void Prepare(Question& question, const Exporter& exporter, curl_slist* headers,
             const AskLimits& limits) {
  question.curl.reset(curl_easy_init());
  CURL* const curl = question.curl.get();
  curl_easy_setopt(curl, CURLOPT_URL, ("http://" + exporter.address + "/api/overview").c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(limits.time.count()));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &question);
  curl_easy_setopt(curl, CURLOPT_PRIVATE, &question);
}

Result<std::string> Outcome(Question& question) {
  const auto failed = [](Code code, std::string what) {
    return Error{code, 0, "cgpu-exporter " + std::move(what), {}};
  };
  long status = 0;
  curl_easy_getinfo(question.curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (question.too_long) {
    return failed(Code::kUnavailable, "answers more than can be taken");
  }
  if (question.code != CURLE_OK) {
    return failed(Code::kUnavailable,
                  std::string("gives no answer: ") + curl_easy_strerror(question.code));
  }
  if (status == 401 || status == 403) {
    return failed(Code::kPermission, "wants another token");
  }
  if (status != 200) {
    return failed(Code::kInvalid, "answers with status " + std::to_string(status));
  }
  return std::move(question.text);
}

void PerformAll(CURLM* multi) {
  int running = 1;
  while (running != 0) {
    if (curl_multi_perform(multi, &running) != CURLM_OK ||
        (running != 0 && curl_multi_poll(multi, nullptr, 0, kLongestWaitMs, nullptr) != CURLM_OK)) {
      return;
    }
  }
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi, &left)) {
    char* question = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &question);
    std::bit_cast<Question*>(question)->code = message->data.result;
  }
}

}  // namespace

std::vector<Result<std::string>> AskExporters(const std::vector<Exporter>& exporters,
                                              const std::string& token, const AskLimits& limits) {
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
      token.empty() ? nullptr
                    : curl_slist_append(nullptr, ("Authorization: Bearer " + token).c_str()),
      curl_slist_free_all);
  std::size_t left_of_all = limits.bytes_of_all_together;
  std::vector<Question> questions(exporters.size());
  const std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi(curl_multi_init(),
                                                                    curl_multi_cleanup);
  curl_multi_setopt(multi.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, kConnections);
  for (std::size_t i = 0; i < exporters.size(); ++i) {
    questions[i].most = limits.answer_bytes;
    questions[i].left_of_all = &left_of_all;
    if (!exporters[i].address.empty()) {
      Prepare(questions[i], exporters[i], headers.get(), limits);
      curl_multi_add_handle(multi.get(), questions[i].curl.get());
    }
  }
  PerformAll(multi.get());
  std::vector<Result<std::string>> answers;
  for (Question& question : questions) {
    if (question.curl == nullptr) {
      answers.emplace_back(
          Error{Code::kUnavailable, 0, "the pod of cgpu-exporter has no address yet", {}});
      continue;
    }
    answers.push_back(Outcome(question));
    curl_multi_remove_handle(multi.get(), question.curl.get());
  }
  return answers;
}

}  // namespace cgpu::fleet
