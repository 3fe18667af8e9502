#!/usr/bin/python3
"""kubelet.py PROTO: what a device plugin needs of a kubelet. Takes its registration and says of which
resource it is, then each list of devices that it is given, as "devices {ID: health}". In a process of
its own since gRPC is there for the system's Python only. PROTO is the device plugin API.
"""
import concurrent.futures
import json
import os
import queue
import subprocess
import sys
import tempfile

import grpc

FOLDER = "/var/lib/kubelet/device-plugins"  # constants.go of the API, DevicePluginPath


def _messages(proto):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", "--python_out", folder, "-I", os.path.dirname(proto), proto],
                       check=True)
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        import deviceplugin_pb2 as messages  # made just now
    return messages


def _say(*words):
    print(*words, flush=True)


def main():
    messages = _messages(sys.argv[1])
    registered = queue.Queue()

    def register(request, _):
        registered.put(request)
        return messages.Empty()

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1beta1.Registration", {
        "Register": grpc.unary_unary_rpc_method_handler(
            register, request_deserializer=messages.RegisterRequest.FromString,
            response_serializer=lambda message: message.SerializeToString())})])
    os.makedirs(FOLDER, exist_ok=True)
    server.add_insecure_port("unix://%s/kubelet.sock" % FOLDER)
    server.start()
    _say("ready")
    request = registered.get()
    _say("resource", request.resource_name)
    with grpc.insecure_channel("unix://%s/%s" % (FOLDER, request.endpoint)) as channel:
        watch = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch",
                                     request_serializer=lambda message: message.SerializeToString(),
                                     response_deserializer=messages.ListAndWatchResponse.FromString)
        for answer in watch(messages.Empty()):
            _say("devices", json.dumps({one.ID: one.health for one in answer.devices}))


main()
