// Settings of the host's administrator: /etc/cgpu/config.yaml, read by cgpud, cgpu-runtime,
// cgpu-exporter and cgpu. `cgpu run` uses only `socket`, `group` and, where it takes the slice
// itself, `max_inst` and `firmware`.
//
//   node: ""             # a simulated node's name; empty: the host's driver, see FindNode()
//   runtime: runc        # the OCI runtime that makes containers: a program in PATH, or a path
//   unmanaged: allow     # GPU files without a grant: "allow" runs such a container plain,
//                        # "refuse" does not run it
//   mode: cgpu           # "cgpu" holds containers to their slices; "share" only counts them:
//                        # containers see whole GPUs, and must obey their environment
//   kubernetes: false    # "true": a container of a pod has what cgpu-scheduler has decided,
//                        # whatever its environment says
//   group: cgpu          # its members may have slices of their own, beside root
//   audit: 60            # seconds between two lines of cgpud's log about one container and
//                        # one kind of refused call; "off" for none
//   calibrate: true      # "false": cgpud does not ask idle GPUs how they take orders
//   log: text            # the form of the daemons' logs: "text", or "json" (base/log.h)
//   firmware: 0x2080a0ff/24 ...   # controls of the GPUs' firmware that slices may send beside
//                        # those that cgpu lists: numbers with the bytes of their parameters
//   max_inst: 20         # slices that a GPU may have at a time, 1 to 64, unless it was set
//                        # for that GPU
//   policy GPU-UUID: fixed   # how that GPU's compute time is shared, unless
//                        # `cgpu policy` has set it (host/saved_settings.h)
//   socket: /run/cgpu/cgpud.sock
//   exporter_listen: 127.0.0.1:9400   # IP address and port of cgpu-exporter
//   exporter_token_file: /etc/cgpu/metrics.token   # a file with a token that requests must
//                        # carry; without it they need none
//   exporter_tls_cert, exporter_tls_key   # files in PEM; with both, it speaks TLS
//   exporter_dcgm: false # "true": metrics have DCGM's names and cGPU's, beside their own
#ifndef CGPU_RUNTIME_SETTINGS_H_
#define CGPU_RUNTIME_SETTINGS_H_

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "governor/policy.h"
#include "grant/grant.h"
#include "protocol/config.h"

namespace cgpu {

inline constexpr char kSettingsFile[] = "/etc/cgpu/config.yaml";

// All settings but "policy GPU-UUID". None of their values is a secret.
inline constexpr auto kSettingNames = std::to_array<std::string_view>(
    {"node", "runtime", "unmanaged", "mode", "kubernetes", "group", "audit", "calibrate", "log",
     "firmware", "max_inst", "socket", "exporter_listen", "exporter_token_file",
     "exporter_tls_cert", "exporter_tls_key", "exporter_dcgm"});

struct Settings {
  std::string node;
  std::string runtime = "runc";
  bool refuse_unmanaged = false;
  bool share = false;
  bool kubernetes = false;
  std::string group = "cgpu";
  std::optional<unsigned> audit = 60;  // seconds
  bool calibrate = true;
  bool log_json = false;
  std::vector<FirmwareControl> firmware;
  unsigned max_inst = kDefaultMaxInst;
  std::map<std::string, governor::Policy> policies;  // by a GPU's UUID
  std::string socket;                                // never empty
  std::string exporter_listen = "127.0.0.1:9400";
  std::string exporter_token_file;
  std::string exporter_tls_cert;  // empty, as is the key: no TLS
  std::string exporter_tls_key;
  bool exporter_dcgm = false;

  Settings();
};

// Parses the settings. Pure. kInvalid, with the key or the line, for what is not understood: a
// mistyped limit must not go unnoticed.
[[nodiscard]] Result<Settings> ParseSettings(std::string_view text);

// Reads the settings of the file `path`; the defaults if there is none.
[[nodiscard]] Result<Settings> ReadSettings(const std::string& path);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_SETTINGS_H_
