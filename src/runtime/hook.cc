#include "runtime/hook.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "runtime/json_depth.h"
#include "runtime/spec.h"

namespace cgpu {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxDepth = 32;

// The words of HookArguments(); each is followed by its values.
constexpr std::string_view kFolder = "--folder";  // name, folder that holds the file
constexpr std::string_view kDevice = "--device";  // name, device node
constexpr std::string_view kProc = "--proc";
constexpr std::string_view kPci = "--pci";
constexpr std::string_view kBdf = "--bdf";
constexpr std::string_view kHide = "--hide";

Error WrongArguments(const std::string& what) {
  return Error{Code::kInvalid, 0, "the hook's arguments " + what,
               "cgpu-runtime writes them itself, and must be of the release that wrote them"};
}

Error Wrong(std::string what) {
  return Error{Code::kInvalid, 0, std::move(what), "it must be as OCI runtime-spec says"};
}

// Bytes that are not printable ASCII, and %, as %XX.
std::string Escape(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7f && c != '%') {
      escaped += c;
    } else {
      escaped += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return escaped;
}

Result<std::string> Unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    unsigned byte = 0;
    if (i + 2 >= text.size() ||
        std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16).ptr != &text[i + 1] + 2) {
      return WrongArguments("have a % that escapes nothing");
    }
    plain += static_cast<char>(byte);
    i += 2;
  }
  return plain;
}

Result<> Set(GpuTree& tree, std::string_view word, std::vector<std::string> values) {
  if (word == kFolder || word == kDevice) {
    tree.devices.push_back({std::move(values[0]), std::move(values[1]), word == kFolder});
  } else if (word == kProc) {
    tree.proc_source = std::move(values[0]);
  } else if (word == kPci) {
    tree.pci_source = std::move(values[0]);
  } else if (word == kBdf) {
    tree.bdfs.push_back(std::move(values[0]));
  } else if (word == kHide) {
    tree.hide.push_back(std::move(values[0]));
  } else {
    return WrongArguments("have a word that is not known: " + std::string(word));
  }
  return {};
}

Result<std::string> ReadState(int fd) {
  std::string state;
  char buffer[4096];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n == 0) {
      return state;
    }
    if (n < 0 && errno != EINTR) {
      return ErrnoError(Code::kUnavailable, errno, "cannot read the container's state");
    }
    state.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (state.size() > kMaxSpec) {
      return Wrong("the container's state is too large");
    }
  }
}

Result<Json> ParseObject(const std::string& text, const std::string& what) {
  if (NestsDeeper(text, kMaxDepth)) {
    return Wrong(what + " is nested too deep");
  }
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return Wrong(what + " is no JSON object");
  }
  return object;
}

// The field of an object; null where there is none.
const Json& FieldOf(const Json& object, const char* name) {
  static const Json null;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? null : *found;
}

// Empty where it is no string.
std::string TextOf(const Json& object, const char* name) {
  const Json& field = FieldOf(object, name);
  return field.is_string() ? field.get<std::string>() : std::string();
}

Result<std::string> BundleOf(int state_fd) {
  const auto text = ReadState(state_fd);
  if (!text.ok()) {
    return text.error();
  }
  const auto state = ParseObject(*text, "the container's state");
  if (!state.ok()) {
    return state.error();
  }
  std::string bundle = TextOf(*state, "bundle");
  if (!bundle.starts_with('/')) {
    return Wrong("the container's state has no absolute path of a bundle");
  }
  return bundle;
}

// A namespace with a path is one that others have too.
bool HasOwnMounts(const Json& config) {
  const Json& list = FieldOf(FieldOf(config, "linux"), "namespaces");
  return std::any_of(list.begin(), list.end(), [](const Json& one) {
    return TextOf(one, "type") == "mount" && TextOf(one, "path").empty();
  });
}

Result<std::string> FindRoot(const std::string& bundle) {
  const std::string path = bundle + "/config.json";
  const auto text = ReadFile(path, kMaxSpec);
  if (!text.ok()) {
    return text.error();
  }
  const auto config = ParseObject(*text, path);
  if (!config.ok()) {
    return config.error();
  }
  if (!HasOwnMounts(*config)) {
    return Error{Code::kUnsupported, 0, "the container has no mount namespace of its own",
                 "a container with a slice of a GPU needs one"};
  }
  std::string rootfs = TextOf(FieldOf(*config, "root"), "path");
  if (rootfs.empty()) {
    return Wrong(path + " names no root file system");
  }
  return rootfs.starts_with('/') ? rootfs : bundle + "/" + rootfs;
}

}  // namespace

std::vector<std::string> HookArguments(const GpuTree& tree) {
  std::vector<std::string> arguments;
  const auto add = [&](std::string_view word, std::initializer_list<std::string_view> values) {
    arguments.emplace_back(word);
    std::transform(values.begin(), values.end(), std::back_inserter(arguments), Escape);
  };
  for (const DeviceFile& device : tree.devices) {
    add(device.via_folder ? kFolder : kDevice, {device.name, device.source});
  }
  add(kProc, {tree.proc_source});
  add(kPci, {tree.pci_source});
  for (const std::string& bdf : tree.bdfs) {
    add(kBdf, {bdf});
  }
  for (const std::string& folder : tree.hide) {
    add(kHide, {folder});
  }
  return arguments;
}

Result<GpuTree> ParseHookArguments(const std::vector<std::string>& arguments) {
  GpuTree tree;
  for (std::size_t i = 0; i < arguments.size();) {
    const std::string& word = arguments[i++];
    const std::size_t count = word == kFolder || word == kDevice ? 2 : 1;
    std::vector<std::string> values;
    for (; values.size() < count; ++i) {
      if (i == arguments.size()) {
        return WrongArguments("end after " + word);
      }
      auto value = Unescape(arguments[i]);
      if (!value.ok()) {
        return value.error();
      }
      values.push_back(std::move(*value));
    }
    CGPU_TRY(Set(tree, word, std::move(values)));
  }
  return tree;
}

Result<> RunHook(const std::vector<std::string>& arguments, int state_fd) {
  const auto tree = ParseHookArguments(arguments);
  if (!tree.ok()) {
    return tree.error();
  }
  const auto bundle = BundleOf(state_fd);
  if (!bundle.ok()) {
    return bundle.error();
  }
  const auto rootfs = FindRoot(*bundle);
  return rootfs.ok() ? MountGpuTreeAt(*tree, *rootfs) : rootfs.error();
}

}  // namespace cgpu
