#include "load/rmtool/options.h"

#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace cgpu::rmtool {
namespace {

constexpr const char* kHelp = R"(rmtool: talk to the NVIDIA driver with bare ioctls

usage: rmtool [--dev DIR] COMMAND [OPTION...]

  info                 one line per GPU: index, name, UUID, memory
  alloc MIB            allocate so much on a GPU and say how much it got
  hold MIB             allocate, print "holding N MiB", wait for the end of stdin
  raw alloc MIB        allocate by one ioctl of a chosen shape
  raw ioctl NR SIZE    issue any one ioctl on a file of the driver

options of alloc, hold and raw alloc
  --gpu I              index of the GPU, in order of bus address (0)
  --chunk MIB          size of each allocation (16)
  --page default|4k|big|huge
                       page size asked for (big: 64 KiB, so that MiB are exact)
  --fill               at the limit, go on with ever smaller chunks down to 1 MiB
  --groups N           first allocate N channel groups
  --forever            hold: until killed, whatever stdin does

options of raw
  --type BYTE          type byte of the request (0x46)
  --dir 0..3           direction bits of the request (3)
  --upper WORD         bits 63..32 of the request register (0)
  --xfer               wrap the call in NV_ESC_IOCTL_XFER_CMD
  --short              raw alloc: the 32-byte form of RM_ALLOC
  --vidheap            raw alloc: by NV_ESC_RM_VID_HEAP_CONTROL
  --class NUMBER       raw alloc: class to allocate (0x40)
  --hold               raw alloc: keep it until stdin ends
  --file ctl|uvm|I     raw ioctl: file to issue it on; I is a GPU's minor number (ctl)
  --data HEX           raw ioctl: first bytes of the parameters, the rest is zero

Numbers may be decimal or 0x hexadecimal. Exit status: 0 it worked; 1 wrong usage, or no driver to
talk to; 2 the driver is out of memory (says "out of memory"); 3 the driver refused.
)";

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::vector<std::uint8_t>> ParseHex(std::string_view text) {
  std::vector<std::uint8_t> bytes;
  if (text.size() % 2 != 0) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < text.size(); i += 2) {
    std::uint8_t byte = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    if (error != std::errc{} || end != text.data() + i + 2) {
      return std::nullopt;
    }
    bytes.push_back(byte);
  }
  return bytes;
}

Error Wrong(std::string what) {
  return Error{Code::kInvalid, 0, std::move(what), "see `rmtool --help`"};
}

// Walks the arguments: options anywhere, the rest in order into `words`.
class Parser {
 public:
  explicit Parser(const std::vector<std::string>& arguments) : arguments_(arguments) {
    flags_ = {{"--fill", &options_.fill},        {"--forever", &options_.forever},
              {"--xfer", &options_.xfer},        {"--short", &options_.short_form},
              {"--vidheap", &options_.vid_heap}, {"--hold", &options_.hold}};
    numbers_ = {
        {"--gpu", {31, [this](std::uint64_t v) { options_.gpu = static_cast<unsigned>(v); }}},
        {"--chunk", {kMaxMib, [this](std::uint64_t v) { options_.chunk_mib = v; }}},
        {"--groups",
         {100000, [this](std::uint64_t v) { options_.groups = static_cast<unsigned>(v); }}},
        {"--type", {255, [this](std::uint64_t v) { options_.type = static_cast<unsigned>(v); }}},
        {"--dir", {3, [this](std::uint64_t v) { options_.direction = static_cast<unsigned>(v); }}},
        {"--upper",
         {kMax32, [this](std::uint64_t v) { options_.upper = static_cast<std::uint32_t>(v); }}},
        {"--class",
         {kMax32,
          [this](std::uint64_t v) { options_.class_number = static_cast<std::uint32_t>(v); }}},
    };
  }

  Result<Options> Run() {
    for (position_ = 0; position_ < arguments_.size(); ++position_) {
      const std::string& argument = arguments_[position_];
      if (argument == "--help" || argument == "-h") {
        return Options{};
      }
      if (!argument.starts_with("--")) {
        words_.push_back(argument);
        continue;
      }
      if (const auto flag = flags_.find(argument); flag != flags_.end()) {
        *flag->second = true;
        continue;
      }
      CGPU_TRY(TakeValue(argument));
    }
    CGPU_TRY(TakeWords());
    return options_;
  }

 private:
  static constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t kMaxMib = std::uint64_t{1} << 40;

  struct Number {
    std::uint64_t most;
    std::function<void(std::uint64_t)> take;
  };

  Result<> TakeValue(const std::string& name) {
    if (++position_ >= arguments_.size()) {
      return Wrong(name + " needs a value or is not an option");
    }
    const std::string& value = arguments_[position_];
    if (const auto number = numbers_.find(name); number != numbers_.end()) {
      const std::optional<std::uint64_t> parsed = ParseNumber(value);
      if (!parsed || *parsed > number->second.most) {
        return Wrong(name + " takes a number up to " + std::to_string(number->second.most) +
                     ", not \"" + value + "\"");
      }
      number->second.take(*parsed);
      return {};
    }
    if (name == "--dev") {
      options_.dev = value;
      return {};
    }
    if (name == "--file") {
      options_.file = value;
      return {};
    }
    if (name == "--page") {
      return TakePage(value);
    }
    if (name == "--data") {
      std::optional<std::vector<std::uint8_t>> bytes = ParseHex(value);
      if (!bytes) {
        return Wrong("--data takes pairs of hexadecimal digits");
      }
      options_.data = std::move(*bytes);
      return {};
    }
    return Wrong("there is no option " + name);
  }

  Result<> TakePage(const std::string& value) {
    static const std::map<std::string, Page> pages = {
        {"default", Page::kDefault}, {"4k", Page::k4K}, {"big", Page::kBig}, {"huge", Page::kHuge}};
    const auto page = pages.find(value);
    if (page == pages.end()) {
      return Wrong("--page is default, 4k, big or huge, not \"" + value + "\"");
    }
    options_.page = page->second;
    return {};
  }

  Result<> TakeMib(const std::string& word) {
    const std::optional<std::uint64_t> mib = ParseNumber(word);
    if (!mib || *mib > kMaxMib) {
      return Wrong("\"" + word + "\" is not a number of MiB");
    }
    options_.mib = *mib;
    return {};
  }

  Result<> TakeWords() {
    const std::string verb = words_.empty() ? "" : words_[0];
    if (verb == "info" && words_.size() == 1) {
      options_.verb = Verb::kInfo;
      return {};
    }
    if ((verb == "alloc" || verb == "hold") && words_.size() == 2) {
      options_.verb = verb == "alloc" ? Verb::kAlloc : Verb::kHold;
      if (options_.chunk_mib == 0) {
        return Wrong("--chunk is at least 1");
      }
      return TakeMib(words_[1]);
    }
    if (verb == "raw" && words_.size() == 3 && words_[1] == "alloc") {
      options_.verb = Verb::kRawAlloc;
      return TakeMib(words_[2]);
    }
    if (verb == "raw" && words_.size() == 4 && words_[1] == "ioctl") {
      options_.verb = Verb::kRawIoctl;
      const std::optional<std::uint64_t> nr = ParseNumber(words_[2]);
      const std::optional<std::uint64_t> size = ParseNumber(words_[3]);
      if (!nr || *nr > 255 || !size || *size > kMax32) {
        return Wrong("raw ioctl takes an escape number up to 255 and a size");
      }
      options_.nr = static_cast<unsigned>(*nr);
      options_.size = static_cast<std::uint32_t>(*size);
      return {};
    }
    return Wrong(verb.empty() ? "no command given" : "\"" + verb + "\": wrong command or operands");
  }

  const std::vector<std::string>& arguments_;
  std::size_t position_ = 0;
  std::vector<std::string> words_;
  Options options_;
  std::map<std::string, bool*> flags_;
  std::map<std::string, Number> numbers_;
};

}  // namespace

Result<Options> ParseOptions(const std::vector<std::string>& arguments) {
  return Parser(arguments).Run();
}

const char* HelpText() {
  return kHelp;
}

}  // namespace cgpu::rmtool
