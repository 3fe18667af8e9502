package main

import (
	"github.com/spf13/cobra"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func init() {
	programs["scheduler"] = func() *cobra.Command { return app.NewSchedulerCommand() }
}
