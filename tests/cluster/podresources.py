#!/usr/bin/python3
"""podresources.py: what the kubelet says of devices, as JSON: those that it can give ("allocatable")
and those of its pods ("pods"), each a number by names. In a process of its own since gRPC is there
for the system's Python only.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

import grpc

SOCKET = "unix:///var/lib/kubelet/pod-resources/kubelet.sock"
CALL_SECONDS = 10


def count(devices):
    numbers = collections.Counter()
    for one in devices:
        numbers[one.resource_name] += len(one.device_ids)
    return numbers


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", "--python_out", folder, "-I", here, "podresources.proto"],
                       check=True)
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        import podresources_pb2 as messages  # made just now
    with grpc.insecure_channel(SOCKET) as channel:
        def ask(method, request, answer):
            return channel.unary_unary(
                "/v1.PodResourcesLister/" + method,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=answer.FromString)(request, timeout=CALL_SECONDS)
        can = ask("GetAllocatableResources", messages.AllocatableResourcesRequest(),
                  messages.AllocatableResourcesResponse)
        has = ask("List", messages.ListPodResourcesRequest(), messages.ListPodResourcesResponse)
    pods = {"%s/%s/%s" % (pod.namespace, pod.name, container.name): count(container.devices)
            for pod in has.pod_resources for container in pod.containers}
    print(json.dumps({"allocatable": count(can.devices), "pods": pods}))


main()
