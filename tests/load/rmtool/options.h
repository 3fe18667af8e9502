// Parses rmtool's command line.
#ifndef CGPU_TESTS_LOAD_RMTOOL_OPTIONS_H_
#define CGPU_TESTS_LOAD_RMTOOL_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cgpu::rmtool {

enum class Verb { kHelp, kInfo, kAlloc, kHold, kRawAlloc, kRawIoctl };
enum class Page { kDefault, k4K, kBig, kHuge };

struct Options {
  Verb verb = Verb::kHelp;
  std::string dev = "/dev";
  unsigned gpu = 0;
  std::uint64_t mib = 0;
  std::uint64_t chunk_mib = 16;
  Page page = Page::kBig;
  bool fill = false;     // at the limit, go on with smaller chunks
  bool forever = false;  // hold until killed, whatever stdin does
  unsigned groups = 0;   // channel groups to allocate first

  // The shape of a raw request.
  unsigned type = 'F';
  unsigned direction = 3;
  std::uint32_t upper = 0;  // bits 63..32 of the register
  bool xfer = false;        // wrapped in NV_ESC_IOCTL_XFER_CMD
  bool short_form = false;  // NVOS21 instead of NVOS64
  bool vid_heap = false;    // NV_ESC_RM_VID_HEAP_CONTROL instead of RM_ALLOC
  bool hold = false;        // keep the allocated memory until stdin ends
  std::uint32_t class_number = 0x40;
  std::string file = "ctl";  // ctl, uvm, or a GPU's number
  unsigned nr = 0;
  std::uint32_t size = 0;
  std::vector<std::uint8_t> data;
};

// Parses the arguments. kInvalid with a sentence for a command line that makes no sense.
[[nodiscard]] Result<Options> ParseOptions(const std::vector<std::string>& arguments);
[[nodiscard]] const char* HelpText();

}  // namespace cgpu::rmtool

#endif  // CGPU_TESTS_LOAD_RMTOOL_OPTIONS_H_
