#!/usr/bin/env bash
# render.sh: writes cgpu.yaml again, from the chart with its default values. HELM names the program.
set -euo pipefail
cd "$(dirname "$0")"
{
  echo "# Rendered from deploy/chart/cgpu by render.sh: change the chart, not this file."
  echo "# It needs keys that no file may bring: install it by install.sh."
  "${HELM:-helm}" template cgpu ../chart/cgpu --namespace cgpu-system --set keys.create=false \
    --set namespace.create=true
} >"${1:-cgpu.yaml}"
