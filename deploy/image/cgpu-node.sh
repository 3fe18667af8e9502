#!/bin/sh
# cgpu-node.sh run: becomes cgpud on the Kubernetes node that this container is on.
# cgpu-node.sh remove: takes away what `run` has put there, once no container has a slice.
#
# The container of the DaemonSet cgpu-node executes it (deploy/chart/cgpu/templates/node.yaml).
# cgpud must run in the namespaces that container engines run in, and neither cgpud nor the shims
# that it starts may be in the pod's cgroup: the end of the pod kills everything there.
# docs/howto/kubernetes-install.md says why it is done this way.
#
# CGPU_FOLDER               where the programs go; the same path here and on the Kubernetes node
# CGPU_CONTAINERD_CONFIG    containerd's configuration; empty: the usual place
# CGPU_CONTAINERD_RESTART   a shell command of the Kubernetes node; empty: somebody else restarts it
set -eu

bin=$CGPU_FOLDER/bin
pending=$CGPU_FOLDER/restart-containerd # there while containerd has not read its configuration
given=/etc/cgpu-given/config.yaml
settings=/etc/cgpu/config.yaml
mark="# Written by the DaemonSet cgpu-node: change the chart's values, not this file."

say() {
  echo "cgpu-node: $*" >&2
}

# Runs a program of the Kubernetes node. The parent of this container's first process is the
# engine's monitor (containerd-shim, conmon), which is in the engine's namespaces.
host() {
  /usr/bin/nsenter --target "$PPID" --mount --uts --ipc --net --cgroup -- "$@"
}

put_programs() {
  mkdir -p "$bin"
  changed=
  for name in cgpu cgpud cgpu-runtime cgpu-shim; do
    if ! cmp -s "/usr/bin/$name" "$bin/$name"; then
      cp -p "/usr/bin/$name" "$bin/$name.new" # nothing can be written to a program that runs
      mv -f "$bin/$name.new" "$bin/$name"
      changed=yes
    fi
  done
  ln -sf cgpu "$bin/cgpu-smi"
}

put_settings() {
  if [ -e "$settings" ] && [ "$(head -n 1 "$settings")" != "$mark" ]; then
    say "$settings of this Kubernetes node is somebody else's"
    say "hint: remove the package cgpu there, or the file"
    exit 1
  fi
  { echo "$mark" && cat "$given"; } >"$settings.new"
  mv -f "$settings.new" "$settings"
}

# $1: install or uninstall.
tell_containerd() {
  set -- "$1" containerd ${CGPU_CONTAINERD_CONFIG:+--config "$CGPU_CONTAINERD_CONFIG"}
  if ! host "$bin/cgpu" "$@" --dry-run | grep -q '^nothing to do'; then
    : >"$pending"
    host "$bin/cgpu" "$@"
  fi
  if [ -e "$pending" ]; then
    say "restarts containerd: ${CGPU_CONTAINERD_RESTART:-not asked for}"
    host sh -c "$CGPU_CONTAINERD_RESTART"
    rm "$pending"
  fi
}

# Moves this process into the root of each hierarchy of cgroups. Version 2 lets only a process that
# sees the whole hierarchy do that.
leave_cgroup() {
  if [ -e /host/cgroup/cgroup.controllers ]; then
    set -- /host/cgroup/cgroup.procs
  else
    set -- /host/cgroup/*/cgroup.procs
  fi
  # shellcheck disable=SC2016
  /usr/bin/nsenter --target "$PPID" --cgroup -- \
    sh -c 'self=$1; shift; for procs; do echo "$self" >"$procs"; done' sh "$$" "$@"
}

run() {
  put_settings
  put_programs
  tell_containerd install
  if [ -n "$changed" ]; then
    host "$bin/cgpu" upgrade || say "not every container runs the new version; later: cgpu upgrade"
  fi
  leave_cgroup
  exec /usr/bin/nsenter --target "$PPID" --mount --uts --ipc --net --cgroup -- "$bin/cgpud"
}

remove() {
  if [ -x "$bin/cgpu" ]; then
    while [ "$(host "$bin/cgpu" ps --json)" != "[]" ]; do
      say "waits for the end of the containers with slices: their engine needs cgpu-runtime to stop them"
      sleep 10
    done
    tell_containerd uninstall
    rm -rf "$bin"
  fi
  if [ -e "$settings" ] && [ "$(head -n 1 "$settings")" = "$mark" ]; then
    rm "$settings"
  fi
  say "removed"
  : >/tmp/removed
  exec tail -f /dev/null
}

case "${1-}" in
run) run ;;
remove) remove ;;
*) say "usage: cgpu-node.sh run|remove" && exit 2 ;;
esac
