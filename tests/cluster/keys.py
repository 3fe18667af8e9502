"""The keys, certificates and kubeconfig files of a test cluster, made by openssl."""
import json
import os
import subprocess

HERE = "IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc,IP:10.96.0.1"


class Keys:
    """Everything lies in `folder`: NAME.crt and NAME.key, and NAME.conf for clients of the API
    server at `server`."""

    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        os.makedirs(folder)
        for authority in ("ca", "front-proxy-ca"):
            self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                          "-nodes", "-days", "30", "-subj", "/CN=test-" + authority, "-keyout",
                          authority + ".key", "-out", authority + ".crt")
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sa.key")
        self._openssl("ec", "-in", "sa.key", "-pubout", "-out", "sa.pub")

    def path(self, name):
        return os.path.join(self.folder, name)

    def _openssl(self, *words):
        done = subprocess.run(["openssl", *words], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError("openssl %s: %s" % (words[0], done.stdout))

    def _certificate(self, name, subject, *extensions, authority="ca"):
        self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                      "-nodes", "-subj", subject, "-keyout", name + ".key", "-out", name + ".csr")
        with open(self.path("extensions"), "w", encoding="utf-8") as file:
            file.write("\n".join(("keyUsage=digitalSignature", *extensions)))
        self._openssl("x509", "-req", "-in", name + ".csr", "-CA", authority + ".crt", "-CAkey",
                      authority + ".key", "-CAcreateserial", "-days", "30", "-extfile", "extensions", "-out",
                      name + ".crt")

    def add_server(self, name, subject):
        self._certificate(name, subject, "extendedKeyUsage=serverAuth", "subjectAltName=" + HERE)

    def add_front_proxy(self, name):
        """Keys of the API server for the requests that it hands on."""
        self._certificate(name, "/CN=" + name, "extendedKeyUsage=clientAuth",
                          authority="front-proxy-ca")

    def add_client(self, name, subject):
        """Also writes its kubeconfig; returns the path of that."""
        self._certificate(name, subject, "extendedKeyUsage=clientAuth")
        user = {"client-certificate": self.path(name + ".crt"),
                "client-key": self.path(name + ".key")}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                  "clusters": [{"name": "test", "cluster": {
                      "server": self.server, "certificate-authority": self.path("ca.crt")}}],
                  "users": [{"name": "test", "user": user}],
                  "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}
        with open(self.path(name + ".conf"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        return self.path(name + ".conf")

    def make_signing_key(self, name):
        """NAME.key and NAME.pub: what cgpu-scheduler signs with, and what its signatures are checked
        with."""
        self._openssl("genpkey", "-algorithm", "ed25519", "-out", name + ".key")
        self._openssl("pkey", "-in", name + ".key", "-pubout", "-out", name + ".pub")
