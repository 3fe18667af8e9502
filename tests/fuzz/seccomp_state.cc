// What a container runtime says of the listener it hands over. For every input: an error has a
// sentence and a hint; what is accepted is what stands in the text, within its bounds; and a text
// whose every field is in order is accepted.
#include "runtime/seccomp_state.h"

#include <nlohmann/json.hpp>
#include <string>

#include "tests/fuzz/input.h"

using cgpu::fuzz::Input;
using cgpu::fuzz::Require;
using Json = nlohmann::json;

namespace {

void CheckAccepted(const std::string& text, const cgpu::SeccompState& state) {
  const Json json = Json::parse(text);
  Require(json.at("pid").get<std::int64_t>() == state.pid, "the pid is the one in the text");
  Require(state.pid > 0 && state.pid <= cgpu::kMaxPid, "the pid is a process's");
  Require(state.init <= cgpu::kMaxPid, "the first process's pid is one");
  Require(state.fds <= cgpu::kMaxSeccompStateFds && state.listener < state.fds,
          "the listener is one of the descriptors");
  Require(json.at("fds").at(state.listener) == "seccompFd", "the listener is where it is said");
  Require(json.at("state").at("id") == state.id, "the id is the one in the text");
  Require(!state.id.empty() && state.id != "." && state.id != ".." &&
              state.id.find_first_of(std::string("/ \n\0", 4)) == std::string::npos,
          "the id is a file name");
  Require(state.bundle.front() == '/', "the bundle is an absolute path");
  Require(state.annotations.size() == json.at("state").value("annotations", Json::object()).size(),
          "all annotations are there");
}

// 0: nothing is returned and all is in order; else the field is left out, of another kind or odd.
Json Field(Input& input, bool& in_order, Json good, bool required = true) {
  switch (input.Take<std::uint8_t>()) {
    case 1:
      in_order = in_order && !required;
      return nullptr;
    case 2:
      in_order = false;
      return Json::array({input.Take<std::int8_t>(), Json::object({{"a", nullptr}})});
    case 3:
      in_order = false;
      return input.Take<std::int64_t>();
    case 4:
      in_order = false;  // perhaps
      return std::string(input.Take<std::uint16_t>(), input.Take<char>());
    case 5:
      in_order = false;
      return input.Take<double>();
    default:
      return good;
  }
}

// A text of all fields. `in_order`: it must be accepted.
Json Build(Input& input, bool& in_order) {
  Json state;
  Json fds = Json::array();
  const std::size_t before = input.Take<std::uint8_t>() % 4;
  for (std::size_t i = 0; i < before; ++i) {
    fds.push_back("other");
  }
  fds.push_back("seccompFd");
  const std::uint32_t pid = 1 + input.Take<std::uint32_t>() % cgpu::kMaxPid;
  const auto put = [](Json& object, const char* name, const Json& value) {
    if (!value.is_null()) {
      object[name] = value;
    }
  };
  put(state, "id", Field(input, in_order, "0123abcdef"));
  put(state, "status", Field(input, in_order, "creating"));
  put(state, "bundle", Field(input, in_order, "/run/containerd/x"));
  put(state, "pid", Field(input, in_order, pid, false));
  put(state, "annotations", Field(input, in_order, {{"io.kubernetes.pod.uid", "77"}}, false));
  Json text;
  put(text, "ociVersion", Field(input, in_order, "1.0.2"));
  put(text, "fds", Field(input, in_order, fds));
  put(text, "pid", Field(input, in_order, pid));
  put(text, "metadata", Field(input, in_order, "anything", false));
  put(text, "state", Field(input, in_order, state));
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::string text;
  bool in_order = false;
  if (input.Take<char>() == 'b') {
    in_order = true;
    text = Build(input, in_order).dump(-1, ' ', false, Json::error_handler_t::replace);
  } else {
    text = input.TakeRest();
  }
  const auto state = cgpu::ParseSeccompState(text);
  if (state.ok()) {
    CheckAccepted(text, *state);
  } else {
    Require(!in_order, "what is in order is accepted");
    Require(!state.error().what.empty() && !state.error().hint.empty(),
            "an error has a sentence and a hint");
  }
  return 0;
}
