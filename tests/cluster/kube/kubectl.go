package main

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func init() {
	programs["kubectl"] = cmd.NewDefaultKubectlCommand
	run["kubectl"] = func(command *cobra.Command) int {
		if err := cli.RunNoErrOutput(command); err != nil {
			util.CheckErr(err)
		}
		return 0
	}
}
