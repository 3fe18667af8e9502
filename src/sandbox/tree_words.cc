#include "sandbox/tree_words.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/words.h"

namespace cgpu {
namespace {

// The words of TreeWords(); each is followed by its values.
constexpr std::string_view kFolder = "--folder";  // name, folder that holds the file
constexpr std::string_view kDevice = "--device";  // name, device node
constexpr std::string_view kProc = "--proc";
constexpr std::string_view kPci = "--pci";
constexpr std::string_view kBdf = "--bdf";
constexpr std::string_view kHide = "--hide";
constexpr std::string_view kOwn = "--own";
constexpr std::string_view kProverWord = "--prover";

Error WrongWords(const std::string& what) {
  return Error{Code::kInvalid, 0, "the description of the GPUs' files " + what,
               "cgpu writes it itself: all of its programs must be of one release"};
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
  } else if (word == kOwn) {
    tree.own.push_back(std::move(values[0]));
  } else if (word == kProverWord) {
    tree.prover = std::move(values[0]);
  } else {
    return WrongWords("has a word that is not known: " + std::string(word));
  }
  return {};
}

}  // namespace

std::vector<std::string> TreeWords(const GpuTree& tree) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view word, std::initializer_list<std::string_view> values) {
    words.emplace_back(word);
    std::ranges::transform(values, std::back_inserter(words), EscapeWord);
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
  for (const std::string& folder : tree.own) {
    add(kOwn, {folder});
  }
  if (!tree.prover.empty()) {
    add(kProverWord, {tree.prover});
  }
  return words;
}

Result<GpuTree> TreeFromWords(const std::vector<std::string>& words) {
  GpuTree tree;
  for (std::size_t i = 0; i < words.size();) {
    const std::string& word = words[i++];
    const std::size_t count = word == kFolder || word == kDevice ? 2 : 1;
    std::vector<std::string> values;
    for (; values.size() < count; ++i) {
      if (i == words.size()) {
        return WrongWords("ends after " + word);
      }
      auto value = UnescapeWord(words[i]);
      if (!value) {
        return WrongWords("has a word that is not escaped as it should be");
      }
      values.push_back(*std::move(value));
    }
    CGPU_TRY(Set(tree, word, std::move(values)));
  }
  return tree;
}

}  // namespace cgpu
