#include "doctor/value.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "json/json.h"

namespace cgpu::doctor {

struct Value::Tree {
  std::shared_ptr<const nlohmann::json> whole;
  const nlohmann::json* part;
};

Value::Value(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}

Value Value::Parse(const std::string& text) {
  auto json = std::make_shared<const nlohmann::json>(ParseJson(text));
  const nlohmann::json* const part = json.get();
  return part->is_discarded() ? Value()
                              : Value(std::make_shared<const Tree>(Tree{std::move(json), part}));
}

Value Value::operator[](const std::string& key) const {
  if (!IsObject()) {
    return {};
  }
  const auto found = tree_->part->find(key);
  return found == tree_->part->end()
             ? Value()
             : Value(std::make_shared<const Tree>(Tree{tree_->whole, &*found}));
}

bool Value::IsList() const {
  return tree_ != nullptr && tree_->part->is_array();
}

bool Value::IsObject() const {
  return tree_ != nullptr && tree_->part->is_object();
}

std::vector<Value> Value::Items() const {
  std::vector<Value> items;
  if (IsList()) {
    for (const auto& item : *tree_->part) {
      items.emplace_back(std::make_shared<const Tree>(Tree{tree_->whole, &item}));
    }
  }
  return items;
}

std::vector<std::string> Value::Keys() const {
  std::vector<std::string> keys;
  if (IsObject()) {
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

bool Value::Flag() const {
  return tree_ != nullptr && tree_->part->is_boolean() && tree_->part->get<bool>();
}

}  // namespace cgpu::doctor
