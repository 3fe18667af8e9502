// main() of a fuzz target that is built without libFuzzer: runs every file of the folders named on
// the command line, the same with bytes flipped and cut off, and random inputs. The generator's
// seed is fixed, so a failure comes again.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kVariants = 200;  // of each file
constexpr int kRandom = 5000;
constexpr std::size_t kLongest = 2048;

using Bytes = std::vector<std::uint8_t>;

void Run(const Bytes& bytes) {
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<Bytes> ReadFolder(const std::string& folder) {
  std::vector<Bytes> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

void RunVariants(const Bytes& bytes, std::mt19937& random) {
  for (int i = 0; i < kVariants && !bytes.empty(); ++i) {
    Bytes variant = bytes;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      variant[random() % variant.size()] = static_cast<std::uint8_t>(random());
    }
    if (random() % 4 == 0) {
      variant.resize(random() % variant.size());
    }
    Run(variant);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same inputs each time
  std::size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const Bytes& bytes : ReadFolder(argv[i])) {
      Run(bytes);
      RunVariants(bytes, random);
      ++files;
    }
  }
  for (int i = 0; i < kRandom; ++i) {
    Bytes bytes(random() % kLongest);
    for (std::uint8_t& byte : bytes) {
      byte = static_cast<std::uint8_t>(random());
    }
    Run(bytes);
  }
  if (files == 0) {
    std::fprintf(stderr, "the corpus is empty\n");
    return 1;
  }
  std::printf("%zu files of the corpus, %d variants of each, %d random inputs: none fails\n", files,
              kVariants, kRandom);
  return 0;
}
