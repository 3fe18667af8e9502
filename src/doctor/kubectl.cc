#include "doctor/kubectl.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "doctor/reading.h"

namespace cgpu::doctor {

struct Value::Tree {
  std::shared_ptr<const nlohmann::json> whole;
  const nlohmann::json* part;
};

Value::Value(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}

Value Value::Parse(const std::string& text) {
  auto json = std::make_shared<const nlohmann::json>(nlohmann::json::parse(text, nullptr, false));
  const nlohmann::json* const part = json.get();
  return part->is_discarded() ? Value()
                              : Value(std::make_shared<const Tree>(Tree{std::move(json), part}));
}

Value Value::operator[](const std::string& key) const {
  if (tree_ == nullptr || !tree_->part->is_object()) {
    return {};
  }
  const auto found = tree_->part->find(key);
  return found == tree_->part->end()
             ? Value()
             : Value(std::make_shared<const Tree>(Tree{tree_->whole, &*found}));
}

std::vector<Value> Value::Items() const {
  std::vector<Value> items;
  if (tree_ != nullptr && tree_->part->is_array()) {
    for (const auto& item : *tree_->part) {
      items.emplace_back(std::make_shared<const Tree>(Tree{tree_->whole, &item}));
    }
  }
  return items;
}

std::vector<std::string> Value::Keys() const {
  std::vector<std::string> keys;
  if (tree_ != nullptr && tree_->part->is_object()) {
    for (const auto& [key, value] : tree_->part->items()) {
      keys.push_back(key);
    }
  }
  return keys;
}

std::string Value::Text() const {
  return tree_ != nullptr && tree_->part->is_string() ? tree_->part->get<std::string>()
                                                      : std::string();
}

long Value::Number(long otherwise) const {
  return tree_ != nullptr && tree_->part->is_number_integer() ? tree_->part->get<long>()
                                                              : otherwise;
}

Result<std::string> AskKubectl(const Facts& facts, std::vector<std::string> words) {
  words.insert(words.begin(), {"kubectl", "--request-timeout=8s"});
  auto output = facts.Run(words);
  if (!output.ok()) {  // kubectl itself is not there, or does not end
    return Error{Code::kUnavailable, 0, output.error().what, {}};
  }
  if (output->status == 0) {
    return output->text;
  }
  const bool missing = output->text.find("(NotFound)") != std::string::npos;
  return Error{missing ? Code::kNotFound : Code::kUnavailable,
               0,
               "kubectl says: " + Trimmed(output->text),
               {}};
}

Result<Value> GetObject(const Facts& facts, std::vector<std::string> words) {
  words.insert(words.begin(), "get");
  words.insert(words.end(), {"-o", "json"});
  CGPU_ASSIGN_OR_RETURN(const auto text, AskKubectl(facts, std::move(words)));
  return Value::Parse(JsonPart(text));
}

std::string ReleaseNamespace(const Facts& facts) {
  const auto webhook = GetObject(facts, {"mutatingwebhookconfigurations", "cgpu"});
  if (webhook.ok()) {
    for (const Value& one : (*webhook)["webhooks"].Items()) {
      const std::string found = one["clientConfig"]["service"]["namespace"].Text();
      if (!found.empty()) {
        return found;
      }
    }
  }
  return "cgpu-system";
}

Finding NotGot(const Error& error, const std::string& missing) {
  return error.code == Code::kNotFound ? Wrong(missing) : Skipped(error.what);
}

}  // namespace cgpu::doctor
