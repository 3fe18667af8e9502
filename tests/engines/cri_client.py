#!/usr/bin/python3
"""cri_client.py SOCKET: one call of CRI a line, ["Runtime", "Version", {...}], from standard input;
one answer a line, ["answer", {...}] or ["error", "sentence"]. In a process of its own since gRPC is
there for the system's Python only.
"""
import json
import os
import subprocess
import sys
import tempfile

import grpc
from google.protobuf import json_format

CALL_SECONDS = 100


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", "--python_out", folder, "-I", here, "cri.proto"], check=True)
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        import cri_pb2  # made just now
    with grpc.insecure_channel("unix://" + sys.argv[1]) as channel:
        for line in sys.stdin:
            service, method, request = json.loads(line)
            call = channel.unary_unary(
                "/runtime.v1.%sService/%s" % (service, method),
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=getattr(cri_pb2, method + "Response").FromString)
            message = json_format.ParseDict(request, getattr(cri_pb2, method + "Request")())
            try:
                answer = ["answer", json_format.MessageToDict(
                    call(message, timeout=CALL_SECONDS, wait_for_ready=True),
                    preserving_proto_field_name=True, including_default_value_fields=True)]
            except grpc.RpcError as error:
                answer = ["error", error.details()]
            print(json.dumps(answer), flush=True)


main()
