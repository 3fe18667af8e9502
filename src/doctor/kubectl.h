// Asks kubectl, and reads the JSON that it prints. Answers are kept as Facts::Run() keeps them.
#ifndef CGPU_DOCTOR_KUBECTL_H_
#define CGPU_DOCTOR_KUBECTL_H_

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/check.h"
#include "doctor/facts.h"

namespace cgpu::doctor {

// A value of a JSON text, or nothing. It is cheap to copy and keeps the text alive.
class Value {
 public:
  struct Tree;
  Value() = default;
  explicit Value(std::shared_ptr<const Tree> tree);
  // Parses a text; nothing where it is none.
  [[nodiscard]] static Value Parse(const std::string& text);

  // Returns the member with this key; nothing where there is none.
  [[nodiscard]] Value operator[](const std::string& key) const;
  [[nodiscard]] std::vector<Value> Items() const;       // of an array
  [[nodiscard]] std::vector<std::string> Keys() const;  // of an object
  [[nodiscard]] std::string Text() const;               // "" where it is none
  [[nodiscard]] long Number(long otherwise = 0) const;

 private:
  std::shared_ptr<const Tree> tree_;
};

// Returns what `kubectl WORDS` prints. kNotFound: the cluster has no such object. kUnavailable: it
// says something else, which is the error's sentence.
[[nodiscard]] Result<std::string> AskKubectl(const Facts& facts, std::vector<std::string> words);
// Returns the object or list of `kubectl get WORDS`, in JSON; errors likewise.
[[nodiscard]] Result<Value> GetObject(const Facts& facts, std::vector<std::string> words);
// Returns the namespace of cgpu's release: the one that the webhook's service is in.
[[nodiscard]] std::string ReleaseNamespace(const Facts& facts);
// Returns the finding where something could not be got: wrong, if the cluster does not have it.
[[nodiscard]] Finding NotGot(const Error& error, const std::string& missing);

}  // namespace cgpu::doctor

#endif  // CGPU_DOCTOR_KUBECTL_H_
