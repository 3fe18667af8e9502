package main

import "k8s.io/kubernetes/cmd/kube-controller-manager/app"

func init() { programs["controller-manager"] = app.NewControllerManagerCommand }
