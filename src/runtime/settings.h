// What the node's administrator says: /etc/cgpu/config.yaml, read by cgpud, cgpu-runtime and a
// user's `cgpu run`.
//
//   node: ""             # a simulated node's name; empty: the machine's driver, see FindNode()
//   runtime: runc        # the OCI runtime that makes containers: a program in PATH, or a path
//   unmanaged: allow     # files of GPUs without a grant: "allow" runs such a container plain,
//                        # "refuse" does not run it
//   mode: cgpu           # "cgpu" holds containers to their parts of the cards; "share" only counts
//                        # the parts: containers see whole cards, and are to obey their environment
//   group: cgpu          # whose members may have slices of their own, beside root
//   audit: 60            # seconds between two lines of the daemon's log about one container and
//   one
//                        # kind of refused call; "off" for none
//   max_inst: 20         # slices that a card may have at a time, 1 to 64, unless it was set for
//   that
//                        # card
//   policy GPU-UUID: fixed   # how that card's compute time is shared out; set by `cgpu policy`
//   socket: /run/cgpu/cgpud.sock
#ifndef CGPU_RUNTIME_SETTINGS_H_
#define CGPU_RUNTIME_SETTINGS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "governor/policy.h"
#include "grant/grant.h"

namespace cgpu {

inline constexpr char kSettingsFile[] = "/etc/cgpu/config.yaml";

struct Settings {
  std::string node;
  std::string runtime = "runc";
  bool refuse_unmanaged = false;
  bool share = false;
  std::string group = "cgpu";
  std::optional<unsigned> audit = 60;  // seconds
  unsigned max_inst = kDefaultMaxInst;
  std::map<std::string, governor::Policy> policies;  // by a card's UUID
  std::string socket;                                // never empty

  Settings();
};

// Pure. kInvalid, with the key or the line, for what is not understood: a limit that is mistyped
// must not go unnoticed.
[[nodiscard]] Result<Settings> ParseSettings(std::string_view text);

// The file's text with another policy for the card, or without one; the rest as it was. Pure.
[[nodiscard]] std::string WithPolicy(std::string_view text, const std::string& uuid,
                                     std::optional<governor::Policy> policy);

// The same in the file `path`, which is made where there is none, and keeps its mode. Others see
// the old text or the new one; of two who do this at once one undoes what the other did.
[[nodiscard]] Result<> SavePolicy(const std::string& path, const std::string& uuid,
                                  std::optional<governor::Policy> policy);

// Of the file `path`; the defaults if there is none.
[[nodiscard]] Result<Settings> ReadSettings(const std::string& path);

}  // namespace cgpu

#endif  // CGPU_RUNTIME_SETTINGS_H_
