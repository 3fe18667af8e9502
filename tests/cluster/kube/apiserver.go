package main

import "k8s.io/kubernetes/cmd/kube-apiserver/app"

func init() { programs["apiserver"] = app.NewAPIServerCommand }
