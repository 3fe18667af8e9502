#!/bin/sh
# install.sh [FILE]: installs cgpu on the cluster of kubectl's current context, without Helm. FILE:
# the manifests, cgpu.yaml beside this script unless another is named.
#
# Makes the signing key and the webhook's certificate where they are missing, so a second run keeps
# them. To renew the certificate: kubectl delete secret -n cgpu-system cgpu-webhook, and run it again.
set -eu
umask 077
namespace=cgpu-system
manifests=${1:-$(dirname "$0")/cgpu.yaml}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

in_namespace() {
  kubectl --namespace "$namespace" "$@"
}

# $1: the name of a Secret, $2: of the file in it.
read_secret() {
  in_namespace get secret "$1" -o "go-template={{index .data \"$2\" | base64decode}}"
}

make_signing_key() {
  if ! in_namespace get secret cgpu-signing-key >/dev/null 2>&1; then
    openssl genpkey -algorithm ed25519 -out "$folder/decisions.key"
    in_namespace create secret generic cgpu-signing-key --from-file="$folder/decisions.key"
  fi
  # A Kubernetes node may read each Secret of its pods, so these get the public half alone.
  read_secret cgpu-signing-key decisions.key >"$folder/private"
  openssl pkey -in "$folder/private" -pubout -out "$folder/decisions.pub"
  in_namespace create configmap cgpu-verify-key --from-file="$folder/decisions.pub" \
    --dry-run=client -o yaml | kubectl apply -f -
}

make_certificate() {
  if ! in_namespace get secret cgpu-webhook >/dev/null 2>&1; then
    host=cgpu-webhook.$namespace.svc
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
      -subj "/CN=$host" -addext "subjectAltName=DNS:$host" \
      -keyout "$folder/tls.key" -out "$folder/tls.crt" 2>/dev/null
    in_namespace create secret tls cgpu-webhook --key="$folder/tls.key" --cert="$folder/tls.crt"
  fi
}

kubectl get namespace "$namespace" >/dev/null 2>&1 || kubectl create namespace "$namespace"
make_signing_key
make_certificate
bundle=$(read_secret cgpu-webhook tls.crt | openssl base64 -A)
# kube-scheduler is to be no newer than the API server.
version=$(kubectl get --raw /version | sed -n 's/.*"gitVersion": *"\(v[0-9.]*[0-9]\).*/\1/p')
sed -e "s|caBundle: \"\"|caBundle: \"$bundle\"|" \
  -e "s|registry.k8s.io/kube-scheduler:v[0-9.]*|registry.k8s.io/kube-scheduler:$version|" \
  "$manifests" | kubectl apply -f -
