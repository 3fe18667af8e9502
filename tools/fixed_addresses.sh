#!/usr/bin/env bash
# fixed_addresses.sh COMMAND...: runs it without address randomisation where that is permitted (a
# container's seccomp profile may refuse), else as it is.
set -euo pipefail
if setarch "$(uname -m)" -R true 2>/dev/null; then
  exec setarch "$(uname -m)" -R "$@"
fi
exec "$@"
