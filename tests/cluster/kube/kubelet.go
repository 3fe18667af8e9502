package main

import (
	"github.com/spf13/cobra"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func init() {
	programs["kubelet"] = func() *cobra.Command { return app.NewKubeletCommand(background) }
}
