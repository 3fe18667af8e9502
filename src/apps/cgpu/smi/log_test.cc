#include "apps/cgpu/smi/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "apps/cgpu/smi/sample_testing.h"

namespace cgpu::smi {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RenderLog, ShowsTheNamedPartsAsNvidiaSmiDoes) {
  Report report = TwoGpus();
  report.gpus.erase(report.gpus.begin());
  EXPECT_EQ(RenderLog(report, kMoment, *ParseParts("MEMORY, utilization,PIDS")),
            R"(
==============NVSMI LOG==============

Timestamp                                 : Fri Nov 21 15:36:05 2026
Driver Version                            : 550.163.01
CUDA Version                              : 12.4

Attached GPUs                             : 2
GPU 00000000:05:00.0
    FB Memory Usage
        Total                             : 4309 MiB
        Reserved                          : N/A
        Used                              : 569 MiB
        Free                              : 3740 MiB
    BAR1 Memory Usage
        Total                             : 256 MiB
        Used                              : 2 MiB
        Free                              : 254 MiB
    Conf Compute Protected Memory Usage
        Total                             : N/A
        Used                              : N/A
        Free                              : N/A
    Utilization
        Gpu                               : 50 %
        Memory                            : 7 %
        Encoder                           : 0 %
        Decoder                           : 0 %
        JPEG                              : N/A
        OFA                               : N/A
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 7
            Type                          : C
            Name                          : /usr/bin/python3
            Used GPU Memory               : 569 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 12345
            Type                          : C+G
            Name                          : /a/very/long/path/that/does/not/fit/the/column
            Used GPU Memory               : 1 MiB

)");
}

TEST(RenderLog, ShowsAllWithoutParts) {
  const std::string log = RenderLog(TwoGpus(), kMoment, {});
  for (const char* line : {"    Product Name                          : Tesla V100-SXM2-16GB\n",
                           "    Product Architecture                  : Volta\n",
                           "    GPU UUID                              : GPU-00000001\n",
                           "    Minor Number                          : 1\n",
                           "        Device Id                         : 0x1DB110DE\n",
                           "    Persistence Mode                      : Enabled\n",
                           "    ECC Mode\n        Current                           : Enabled\n"
                           "        Pending                           : Disabled\n",
                           "        Bus                               : 0x05\n",
                           "    Compute Mode                          : Default\n",
                           "        GPU Current Temp                  : N/A\n",
                           "    Processes                             : None\n"}) {
    EXPECT_THAT(log, HasSubstr(line));
  }
  EXPECT_THAT(RenderLog(TwoGpus(), kMoment, *ParseParts("COMPUTE")), Not(HasSubstr("Product")));
}

TEST(ParseParts, RefusesOthers) {
  for (const char* text : {"", "MEMORY,", "BOGUS", "FB"}) {
    const auto parts = ParseParts(text);
    ASSERT_FALSE(parts.ok()) << text;
    EXPECT_THAT(parts.error().hint, HasSubstr("MEMORY, "));
  }
  EXPECT_TRUE(ParseParts("SUPPORTED_CLOCKS").ok());
}

TEST(RenderXml, NestsAndEscapes) {
  Report report = TwoGpus();
  report.gpus[1].processes[0].name = "<&\">\n";
  const std::string xml = RenderXml(report, kMoment, {});
  for (const char* text :
       {"<nvidia_smi_log>\n\t<timestamp>Fri Nov 21 15:36:05 2026</timestamp>\n",
        "\t<gpu id=\"00000000:05:00.0\">\n\t\t<product_name>Tesla V100-SXM2-16GB</product_name>\n",
        "\t\t<fb_memory_usage>\n\t\t\t<total>4309 MiB</total>\n",
        "\t\t\t\t<pcie_gen>\n\t\t\t\t\t<max_link_gen>N/A</max_link_gen>\n",
        "\t\t\t<gpu_util>50 %</gpu_util>\n",
        "\t\t\t\t<process_name>&lt;&amp;&quot;&gt;?</process_name>\n"}) {
    EXPECT_THAT(xml, HasSubstr(text));
  }
  std::vector<std::string> open;
  std::istringstream lines(xml);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find('<') + 1;
    const std::string name = line.substr(begin, line.find_first_of(" >", begin) - begin);
    if (name.starts_with('/')) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), name.substr(1));
      EXPECT_EQ(begin, open.size());
      open.pop_back();
    } else if (line.find("</") == std::string::npos && name[0] != '?' && name[0] != '!') {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
}

}  // namespace
}  // namespace cgpu::smi
